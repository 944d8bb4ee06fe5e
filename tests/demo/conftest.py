from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from tests.demo.snapshots import snapshot
from tileharvest.demo.publication import publish
from tileharvest.demo.world import World

if TYPE_CHECKING:
    from tests.demo.snapshots import Snapshot

FIRST_DAY = date(2026, 11, 18)


@pytest.fixture(scope="session")
def world() -> World:
    return World()


@pytest.fixture(scope="session")
def days(world: World, tmp_path_factory: pytest.TempPathFactory) -> list[Snapshot]:
    """The layer on each of the three days, each published over the one before."""
    folder = tmp_path_factory.mktemp("published")
    snapshots = []
    for day in (1, 2, 3):
        publish(world, day, FIRST_DAY, folder)
        snapshots.append(snapshot(folder))
    return snapshots


@pytest.fixture
def first_day() -> date:
    return FIRST_DAY
