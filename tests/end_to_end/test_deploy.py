"""A host that uploads everything anew: every file has a new time, and so every tile a new ETag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import ANTWORLD
from tests.end_to_end.rendering import date_all
from tests.servers.nginx import nginx
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.real_maps import Harvested
    from tests.servers.nginx import Nginx


@pytest.fixture(scope="module")
def deployed(
    antworld: list[Harvested], shared_maps: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Project, Nginx]]:
    """After version 1 of antworld, version 2 is uploaded anew as a whole, and harvested."""
    folder = tmp_path_factory.mktemp("deployed")
    project = Project(folder)
    project.adopt(antworld[0].data)
    site = published(shared_maps, ANTWORLD, 2, folder / "site", deploy=True)
    # One time for all, which no file had before: what was uploaded in one second.
    date_all(site, 1_613_500_000)
    with nginx(site) as server:
        # All is uploaded anew, also where nothing was rendered: that is not to be left out here.
        project.add_map(ANTWORLD, server.url, change_index=False)
        project.crawl(ANTWORLD, "2021-02-16")
        yield project, server


def test_unchanged_tiles_are_fetched_and_found_the_same(
    deployed: tuple[Project, Nginx], antworld: list[Harvested]
) -> None:
    second = antworld[1]
    assert second.step is not None
    added = second.rendering.tiles_of_files(second.step.added)
    changed = second.rendering.tiles_of_files(second.step.changed)
    expected = dict.fromkeys(second.missing, "404") | dict.fromkeys(second.images, "nMod")
    expected |= dict.fromkeys(added, "add") | dict.fromkeys(changed, "upd")
    project, _ = deployed
    assert project.outcomes() == expected


def test_nothing_is_stored_twice(deployed: tuple[Project, Nginx], antworld: list[Harvested]) -> None:
    """The same versions and images as after a harvest of the same map with its own times."""
    project, _ = deployed
    assert project.stored() == antworld[1].stored
    assert {(version.tile, version.day, version.sha1) for version in project.versions()} == {
        (version.tile, version.day, version.sha1) for version in antworld[1].versions
    }
