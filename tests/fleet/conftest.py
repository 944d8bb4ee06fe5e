"""What the tests of fleets share. `tests/torture` has fleets over PostgreSQL, and kills their workers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.rendering import Rendering
from tests.fleet.workers import Fleet
from tests.servers.misbehaving import Misbehaving
from tests.servers.nginx import Nginx
from tests.servers.published import published
from tests.servers.redis import RedisServer


@pytest.fixture
def fleet(
    tmp_path: Path,
    redis: RedisServer,
    nginx: Callable[..., Nginx],
    misbehaving: Callable[[Path], Misbehaving],
) -> Iterator[Fleet]:
    """A fleet whose history is a file. Its workers are killed before the sites stop, which
    would wait for whoever still asks."""
    with Fleet(tmp_path / "project", redis.url) as fleet:
        yield fleet


@pytest.fixture(scope="session")
def small(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Rendering:
    """A map of 62 tiles: 199 requests for a first harvest by HEAD. Not to be changed."""
    folder = published(shared_maps, "alexjj", 2, tmp_path_factory.mktemp("small"))
    return Rendering(folder, depth=6)
