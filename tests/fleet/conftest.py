"""What the tests of fleets share: Redis, PostgreSQL, and sites with real maps."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.real_maps import ANTWORLD_DEPTH
from tests.end_to_end.rendering import Rendering
from tests.fleet.workers import Fleet
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import Nginx
    from tests.servers.postgresql import PostgresqlServer
    from tests.servers.redis import RedisServer


@pytest.fixture
def postgresql(postgresql: PostgresqlServer) -> Iterator[str]:
    """The address of a new database, as workers on several computers would have it."""
    with postgresql.database() as name:
        yield postgresql.tcp_url(name)


@pytest.fixture
def fleet_on(
    tmp_path: Path, nginx: Callable[..., Nginx], misbehaving: Callable[[Path], Misbehaving]
) -> Iterator[Callable[..., Fleet]]:
    """Make a fleet: `fleet_on(redis_url, database_url)`. Its workers are killed when the test ends, before
    the sites stop, which would wait for whoever still asks."""
    with ExitStack() as fleets:
        yield lambda *places: fleets.enter_context(Fleet(tmp_path / "project", *places))


@pytest.fixture
def fleet(fleet_on: Callable[..., Fleet], redis: RedisServer) -> Fleet:
    """A fleet whose history is a file."""
    return fleet_on(redis.url)


@pytest.fixture(scope="session")
def large(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Rendering:
    """A map of 298 tiles: 679 requests for a first harvest by HEAD. Not to be changed."""
    folder = published(shared_maps, "antworld", 1, tmp_path_factory.mktemp("large"))
    return Rendering(folder, ANTWORLD_DEPTH)


@pytest.fixture(scope="session")
def small(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Rendering:
    """A map of 62 tiles: 199 requests for a first harvest by HEAD. Not to be changed."""
    folder = published(shared_maps, "alexjj", 2, tmp_path_factory.mktemp("small"))
    return Rendering(folder, depth=6)
