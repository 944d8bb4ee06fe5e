"""What the tests of the queue in Redis share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.queue.redis_maps import OF_HOST, RedisMap
from tests.servers.redis import redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.redis import RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture
def world(server: RedisServer) -> Iterator[RedisMap]:
    """A map of the test's own, on a host of which nothing is known."""
    server.ask("DEL", OF_HOST)
    with RedisMap(server) as one:
        yield one
