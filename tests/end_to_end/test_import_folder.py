"""Folders of published maps, imported as the state of a day."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tests.end_to_end.published_maps import ANTWORLD_MAP
from tests.end_to_end.real_maps import SMALL, harvested_versions
from tests.servers.published import published

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.end_to_end.rendering import Rendering

URL: Final = "https://map.example.net/world/"


def imported(project: Project, folder: Path, name: str, day: str) -> dict[str, int]:
    """`scrapy import folder FOLDER NAME --day DAY`: the day's counts."""
    done = project.scrapy("import", "folder", str(folder), name, "--day", day, "--json")
    (told,) = json.loads(done.stdout)["days"]
    return dict(told["counts"])


def rows(project: Project) -> set[tuple[Any, ...]]:
    return {version[:8] for version in project.versions()}


def test_backups_in_any_order_give_the_harvested_history(
    project: Project, shared_maps: Path, common_folder: Path, tmp_path: Path
) -> None:
    harvested = harvested_versions(shared_maps, common_folder, ANTWORLD_MAP)
    project.add_map("antworld", URL)
    for one in (harvested[2], harvested[0], harvested[3], harvested[1], harvested[0]):
        folder = published(shared_maps, "antworld", one.version, tmp_path / "backup")
        imported(project, folder, "antworld", one.day)
    assert rows(project) == {version[:8] for version in harvested[-1].versions}
    assert project.stored() == harvested[-1].stored
    assert len(project.harvests("antworld")) == 4


def test_a_backup_from_before_the_first_harvest_takes_nothing_from_it(
    project: Project, harvested_map: Rendering, shared_maps: Path, tmp_path: Path
) -> None:
    """The same tiles were there a year before: their versions move there. The next harvest fetches none."""
    before = {version.tile: (version.sha1, version.etag) for version in project.versions()}
    folder = published(shared_maps, "alexjj", 1, tmp_path / "backup")
    assert imported(project, folder, SMALL, "2015-10-06") == {"add": len(before)}
    assert {version.day for version in project.versions()} == {"2015-10-06"}
    assert {version.tile: (version.sha1, version.etag) for version in project.versions()} == before
    report = project.harvest(SMALL, "2016-10-08")
    assert report["counts"]["ign"] == len(before)
