from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.viewer.asking import Client, serving
from tests.viewer.building import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
