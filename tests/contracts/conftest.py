"""The queues that the contract of queues is tested with."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import count
from pathlib import Path

import pytest

from tests.queue.driven import Driven
from tests.servers.redis import queue_on
from tileharvest.queue.port import RequestQueue
from tileharvest.queue.sqlite.queue import SqliteQueue

_numbers = count()


def _in_memory(request: pytest.FixtureRequest, folder: Path) -> Callable[..., RequestQueue]:
    # Such a queue is its contents.
    return cache(SqliteQueue)


def _in_sqlite(request: pytest.FixtureRequest, folder: Path) -> Callable[..., RequestQueue]:
    return partial(SqliteQueue, folder / "queues" / "world.sqlite")


def _in_redis(request: pytest.FixtureRequest, folder: Path) -> Callable[..., RequestQueue]:
    return partial(queue_on, request.getfixturevalue("redis"), f"world-{next(_numbers)}")


@pytest.fixture(params=[_in_memory, _in_sqlite, _in_redis])
def making(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., RequestQueue]:
    return request.param(request, tmp_path)


@pytest.fixture
def queue(making: Callable[..., RequestQueue]) -> Iterator[Driven]:
    """Open as the worker of a segment, with 3 attempts."""
    with Driven(lambda: making(max_attempts=3)) as driven:
        yield driven.open()
