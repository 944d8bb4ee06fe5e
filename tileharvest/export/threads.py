"""Calls that several threads make at once, whose results come in order."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_Asked = TypeVar("_Asked")
_Told = TypeVar("_Told")


def each_in_order(call: Callable[[_Asked], _Told], asked: Iterable[_Asked], at_once: int) -> Iterator[_Told]:
    """Yields what the call returns for each, of which only some are under way or wait, so that the memory
    holds no more. Where it raises, or the caller stops, nothing more begins."""
    with ThreadPoolExecutor(at_once, "export") as pool:
        try:
            left = iter(asked)
            waiting = deque(pool.submit(call, one) for one in islice(left, 4 * at_once))
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(pool.submit(call, one) for one in islice(left, 1))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
