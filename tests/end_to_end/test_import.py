"""Repositories and folders of published maps, imported: the history is that of harvests on their days."""

import json
import re
import sqlite3
from datetime import timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.git_maps import MAPS, URL, rows
from tests.end_to_end.project import Project, await_condition
from tests.end_to_end.published_maps import ANTWORLD_MAP, PublishedMap
from tests.end_to_end.real_maps import harvested_versions
from tests.importers.imports import dot
from tests.servers.published import published
from tests.servers.repositories import git, map_repository, moment_of


def imported(project: Project, source: Path, name: str, *more: str, form: str = "git") -> dict[str, Any]:
    """`scrapy import FORM SOURCE NAME --json`: what it tells."""
    done = project.scrapy("import", form, str(source), name, "--json", *more)
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("drawn", MAPS, ids=lambda drawn: drawn.name)
def test_the_imported_history_is_the_harvested_one(
    drawn: PublishedMap, project: Project, shared_maps: Path, common_folder: Path, tmp_path: Path
) -> None:
    harvested = harvested_versions(shared_maps, common_folder, drawn)
    days = [(one.version, one.day) for one in harvested]
    project.add_map(drawn.name, URL, renderer=drawn.renderer)
    source = map_repository(shared_maps, drawn.name, days, tmp_path / "map.git", "docs")
    told = imported(project, source.folder, drawn.name, "--path", "docs")
    assert [one["day"] for one in told["days"]] == [day for _, day in days]
    assert rows(project.versions()) == rows(harvested[-1].versions)
    before = project.versions()
    assert imported(project, source.folder, drawn.name, "--path", "docs")["days"] == []
    assert project.versions() == before


def test_backups_in_any_order_give_the_harvested_history(
    project: Project, shared_maps: Path, common_folder: Path, tmp_path: Path
) -> None:
    harvested = harvested_versions(shared_maps, common_folder, ANTWORLD_MAP)
    project.add_map("antworld", URL)
    for one in (harvested[2], harvested[0], harvested[3], harvested[1], harvested[0]):
        folder = published(shared_maps, "antworld", one.version, tmp_path / "backup")
        assert len(imported(project, folder, "antworld", "--day", one.day, form="folder")["days"]) == 1
    assert rows(project.versions()) == rows(harvested[-1].versions)
    assert project.stored() == harvested[-1].stored
    assert len(project.harvests("antworld")) == 4


def test_a_killed_import_of_two_thousand_commits_goes_on(
    project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    """Forty commits a day. What is recorded at the kill is not recorded again; nothing else is missing."""
    project.add_map("small", URL)
    published_days = [(1, "2016-10-06"), (2, "2016-10-07")]
    small = map_repository(shared_maps, "alexjj", published_days, tmp_path / "map.git")
    every = git(small.folder, "ls-tree", "-r", "--name-only", "main").splitlines()
    tiles = [path for path in every if re.fullmatch(r"[^/]+(/[0-3])+\.png", path)]
    start = moment_of("2017-01-01", 0)
    for number in range(2000):
        tile = tiles[number % len(tiles)]
        small.commit(start + timedelta(hours=number * 0.6), {tile: dot(number)})
    small.written()
    with project.running("import", "git", str(small.folder), "small") as process:
        await_condition(lambda: len(days_of(project)) > 5, process)
        process.kill()
        process.wait()
    first = days_of(project)
    told = imported(project, small.folder, "small")
    assert len(first) + len(told["days"]) == 52
    assert not set(first) & {one["day"] for one in told["days"]}
    last = {version.tile: version for version in sorted(project.versions(), key=lambda one: one.day)}
    stored = {sha1(body).hexdigest() for body in project.stored().values()}
    assert {version.sha1 for version in project.versions()} <= stored
    assert {version.sha1 for version in last.values()} >= {
        sha1(dot(number)).hexdigest() for number in range(2000 - len(tiles), 2000)
    }


def days_of(project: Project) -> list[str]:
    """The days that the history has; none before its tables are made."""
    try:
        return [day for (day,) in project.query("SELECT day FROM harvests")]
    except sqlite3.OperationalError:
        return []
