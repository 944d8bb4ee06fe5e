"""Threads that work for one export, and calls to them whose results come in order."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

_Asked = TypeVar("_Asked")
_Result = TypeVar("_Result")


@contextmanager
def open_threads(number: int, name: str) -> Iterator[Executor]:
    """Opens threads, and waits for them at the end. If the block raises, calls that have not begun are
    dropped, and those under way are waited for."""
    with ThreadPoolExecutor(number, name) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def drawing_threads() -> AbstractContextManager[Executor]:
    """Opens the threads that unpack tiles and pack strips: no more than there are cores, and four at most,
    because each holds a tile or a strip in memory."""
    return open_threads(min(4, os.cpu_count() or 1), "draw")


def each_in_order(
    pool: Executor, call: Callable[[_Asked], _Result], asked: Iterable[_Asked], most: int
) -> Iterator[_Result]:
    """Yields what the call returns for each value, in the order of the values.

    At most `most` calls are under way or wait at once, so memory does not grow with the number of values.
    Raises what a call raises, and what `asked` raises.
    """
    left = iter(asked)
    waiting = deque(pool.submit(call, one) for one in islice(left, most))
    while waiting:
        yield waiting.popleft().result()
        waiting.extend(pool.submit(call, one) for one in islice(left, 1))
