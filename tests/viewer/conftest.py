from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

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
def world(tmp_path: Path) -> World:
    """Without maps and without data."""
    folder = tmp_path / "project"
    folder.mkdir()
    return World(folder)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Of a viewer over one tile, at the origin."""
    world = World(tmp_path_factory.mktemp("world"))
    world.harvest(FIRST, {Tile(0, 1, 1): picture()})
    with serving(world) as running:
        yield running
