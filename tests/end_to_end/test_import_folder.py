"""Folders of published maps, imported as the state of a day."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tests.end_to_end.published_maps import ANTWORLD_MAP
from tests.end_to_end.real_maps import harvested_versions
from tests.servers.published import published

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.project import Project

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
