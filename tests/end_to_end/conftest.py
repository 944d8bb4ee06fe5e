"""What the end-to-end tests share: a user's project, and real maps that were harvested already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import SMALL, SMALL_DEPTH, harvested_antworld, harvested_small
from tests.end_to_end.rendering import Rendering
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.real_maps import Harvested
    from tests.servers.nginx import Nginx


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A user's project without maps and without data."""
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)


@pytest.fixture(scope="session")
def antworld(shared_maps: Path, common_folder: Path) -> list[Harvested]:
    """The four versions of a real map, harvested in turn. Read only: copy `data` to go on from there."""
    return harvested_antworld(shared_maps, common_folder)


@pytest.fixture(scope="session")
def small_history(shared_maps: Path, common_folder: Path) -> Path:
    """The data folder of the small map, harvested once. Read only: `project.adopt` copies it."""
    return harvested_small(shared_maps, common_folder)


@pytest.fixture
def small_map(project: Project, shared_maps: Path, tmp_path: Path, nginx: Callable[..., Nginx]) -> Rendering:
    """The small map, served and in `maps.toml` under the name `small`, never harvested."""
    folder = published(shared_maps, "alexjj", 1, tmp_path / "site")
    project.add_map(SMALL, nginx(folder).url)
    return Rendering(folder, SMALL_DEPTH)


@pytest.fixture
def harvested_map(project: Project, small_map: Rendering, small_history: Path) -> Rendering:
    """The small map, served and in `maps.toml`, after its harvest of `SMALL_DAY`."""
    project.adopt(small_history)
    return small_map
