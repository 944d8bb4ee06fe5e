"""Repositories and folders of published maps, imported: the history is that of harvests on their days."""

import json
import sqlite3
from datetime import date, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.project import Project, await_condition
from tests.end_to_end.real_maps import (
    ANTWORLD_MAP,
    DUCKMAP,
    MAPCRAFTERS,
    URL,
    PublishedMap,
    harvested_versions,
    rows,
)
from tests.importers.imports import dot, repository
from tests.servers.published import published
from tests.servers.repositories import map_repository


def imported(project: Project, source: Path, name: str, *more: str, form: str = "git") -> dict[str, Any]:
    """`scrapy import FORM SOURCE NAME --json`: what it tells."""
    done = project.scrapy("import", form, str(source), name, "--json", *more)
    return dict(json.loads(done.stdout))


# They show all that differs where git is asked: squares, regions, one layer and several. The others differ in
# what their renderers publish, which has tests of its own.
@pytest.mark.parametrize("drawn", [ANTWORLD_MAP, MAPCRAFTERS[0], DUCKMAP], ids=lambda drawn: drawn.name)
def test_the_imported_history_is_the_harvested_one(
    drawn: PublishedMap, project: Project, shared_maps: Path, common_folder: Path, tmp_path: Path
) -> None:
    """Of the last day there is a backup, which is imported first."""
    harvested = harvested_versions(shared_maps, common_folder, drawn)
    days = [(one.version, one.day) for one in harvested]
    project.add_map(drawn.name, URL, renderer=drawn.renderer)
    backup = published(shared_maps, drawn.name, days[-1][0], tmp_path / "backup")
    imported(project, backup, drawn.name, "--day", days[-1][1], form="folder")
    source = map_repository(shared_maps, drawn.name, days, tmp_path / "map.git", "docs")
    told = imported(project, source.folder, drawn.name, "--path", "docs")
    assert [one["day"] for one in told["days"]] == [day for _, day in days]
    assert rows(project.versions()) == rows(harvested[-1].versions)
    assert project.stored() == harvested[-1].stored
    assert imported(project, source.folder, drawn.name, "--path", "docs")["days"] == []


def test_a_killed_import_goes_on(project: Project, tmp_path: Path) -> None:
    """What is recorded at the kill is not recorded again; nothing else is missing."""
    bounds = {"zoom": 0, "x": [0, 0], "y": [0, 0]}
    project.add_map("plain", "https://map.example.net/{z}/{x}/{y}.png", site_zooms=[0, 0], bounds=bounds)
    days = [str(date(2017, 1, 1) + timedelta(days=number)) for number in range(100)]
    source = repository(tmp_path / "map.git", {day: {"0/0/0.png": dot(n)} for n, day in enumerate(days)})

    def recorded() -> list[str]:
        try:
            return [day for (day,) in project.query("SELECT day FROM harvests")]
        except sqlite3.OperationalError:
            return []

    with project.running("import", "git", str(source.folder), "plain") as process:
        await_condition(lambda: len(recorded()) > 5, process)
        process.kill()
        process.wait()
    first = recorded()
    assert sorted(first + [one["day"] for one in imported(project, source.folder, "plain")["days"]]) == days
    assert [version.sha1 for version in sorted(project.versions(), key=lambda one: one.day)] == [
        sha1(dot(number)).hexdigest() for number in range(100)
    ]
    assert len(project.stored()) == 100
