"""What the end-to-end tests share: the small map, served, and a drawn site."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.bad_input.small_site import Stage, staged
from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import SMALL, SMALL_DEPTH
from tests.end_to_end.rendering import Rendering
from tests.servers.nginx import Nginx
from tests.servers.published import published


@pytest.fixture
def small_map(project: Project, shared_maps: Path, tmp_path: Path, nginx: Callable[..., Nginx]) -> Rendering:
    """The small map, served and in `maps.toml` under the name `small`, never harvested."""
    folder = published(shared_maps, "alexjj", 1, tmp_path / "site")
    project.add_map(SMALL, nginx(folder).url)
    return Rendering(folder, SMALL_DEPTH)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as stage:
        yield stage


@pytest.fixture(scope="module")
def shared_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage for a module whose tests look at different tiles of the same harvests."""
    with staged(tmp_path_factory.mktemp("stage")) as stage:
        yield stage
