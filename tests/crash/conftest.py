"""What the crash tests share with the end-to-end tests: real maps that were harvested without a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import harvested_antworld, harvested_small

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.real_maps import Harvested


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A user's project without maps and without data."""
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)


@pytest.fixture(scope="session")
def antworld(shared_maps: Path, common_folder: Path) -> list[Harvested]:
    """The four versions of a real map, harvested in turn and undisturbed."""
    return harvested_antworld(shared_maps, common_folder)


@pytest.fixture(scope="session")
def small_history(shared_maps: Path, common_folder: Path) -> Path:
    """The data folder of the small map, harvested once and undisturbed. Read only."""
    return harvested_small(shared_maps, common_folder)
