from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.viewer.asking import Client, serving
from tests.viewer.building import World
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


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    """Of a viewer over the world."""
    with serving(world) as running:
        yield running
