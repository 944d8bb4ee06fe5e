from collections.abc import Iterator

import pytest

from tests.export.island import island
from tests.viewer.building import World
from tileharvest.history.database import History


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """An island of three days, harvested. Read only."""
    return island(tmp_path_factory.mktemp("island"))


@pytest.fixture(scope="session")
def history(world: World) -> Iterator[History]:
    with History.open_read_only(f"sqlite:///{world.history_file}") as opened:
        yield opened
