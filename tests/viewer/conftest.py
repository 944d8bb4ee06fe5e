from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest

from tests.end_to_end.project import Project
from tests.viewer.asking import Client, serving
from tests.viewer.building import FIRST, World, picture
from tileharvest.tiles.grid import Tile
from tileharvest.viewer.page_files import page_files

_page_files: Final = cache(page_files)


@pytest.fixture(autouse=True)
def page_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's files are the same for every server, and to compress them takes longer than most tests."""
    monkeypatch.setattr("tileharvest.commands.serve.page_files", _page_files)


@pytest.fixture
def world(project: Project) -> World:
    """Without maps and without data."""
    return World(project.folder)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Of a viewer over one tile, at the origin."""
    world = World(tmp_path_factory.mktemp("world"))
    world.harvest(FIRST, {Tile(0, 1, 1): picture()})
    with serving(world) as running:
        yield running
