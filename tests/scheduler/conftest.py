"""What the tests of the scheduler over Redis share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers.redis import redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.redis import RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running
