"""The queues that every contract is tested with."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.scheduler.driving import ATTEMPTS, LEASE, Driven
from tileharvest.scheduler.memory import MemoryQueue
from tileharvest.scheduler.sqlite import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tileharvest.scheduler.port import RequestQueue


class Backend(Protocol):
    """Gives a way to make one and the same queue, again and again, as programs do that are started
    again. A backend on a server would empty it here first."""

    def __call__(self, folder: Path, **options: Any) -> Callable[[], RequestQueue]: ...


def in_memory(folder: Path, **options: Any) -> Callable[[], RequestQueue]:
    # Such a queue is its contents.
    return cache(lambda: MemoryQueue(**options))


def in_sqlite(folder: Path, **options: Any) -> Callable[[], RequestQueue]:
    return lambda: SqliteQueue(folder / "queues" / "world.sqlite", **options)


LOCAL = [in_memory, in_sqlite]
"""Have one worker, and take the leases of a former one back when they are opened."""

BACKENDS = [*LOCAL]


def _making(backend: Backend, folder: Path, **options: Any) -> Driven:
    defaults = {"max_attempts": ATTEMPTS, "lease_seconds": LEASE, "minus_share": 0}
    return Driven(backend(folder, **defaults | options))


@pytest.fixture(params=BACKENDS)
def making(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Driven]:
    """Makes a queue with other options than `queue`, not open; the test closes it."""
    return partial(_making, request.param, tmp_path)


@pytest.fixture
def queue(making: Callable[..., Driven]) -> Iterator[Driven]:
    """Open, with 3 attempts, leases of 100 s and without ageing."""
    with making().open() as opened:
        yield opened


@pytest.fixture(params=LOCAL)
def local_queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driven]:
    with _making(request.param, tmp_path).open() as opened:
        yield opened
