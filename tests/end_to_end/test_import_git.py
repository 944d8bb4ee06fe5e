"""Repositories of published maps, imported: the history is that of harvests on the days of their commits."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import tomllib
from datetime import timedelta
from hashlib import sha1
from typing import TYPE_CHECKING, Any, Final

import pytest
from PIL import Image

from tests.end_to_end.git_maps import MAPS, URL, Drawn, as_parameters, dated, harvested_rows, rows
from tests.end_to_end.project import await_condition
from tests.servers.repositories import FastImport, files_of, git, map_repository, moment_of
from tileharvest.errors import ExitStatus
from tileharvest.importers.git_import import page_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.project import Project

_TABLES: Final = ("harvests", "harvest_counts", "harvest_layers", "versions", "tiles", "changes")


def recorded(project: Project) -> list[list[tuple[Any, ...]]]:
    """All that the history holds."""
    return [project.query(f"SELECT * FROM {table}") for table in _TABLES]


def imported(
    project: Project, source: Path | str, name: str, *more: str, check: bool = True
) -> dict[str, Any]:
    """`scrapy import git SOURCE NAME --json`: what it tells."""
    done = project.scrapy("import", "git", str(source), name, "--json", *more)
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("drawn", as_parameters(MAPS))
def test_the_imported_history_is_the_harvested_one(
    drawn: Drawn, project: Project, shared_maps: Path, common_folder: Path, tmp_path: Path
) -> None:
    project.add_map(drawn.name, URL, renderer=drawn.renderer)
    source = map_repository(shared_maps, drawn.name, dated(shared_maps, drawn), tmp_path / "map.git", "docs")
    told = imported(project, source.folder, drawn.name, "--path", "docs")
    assert [one["day"] for one in told["days"]] == [day for _, day in dated(shared_maps, drawn)]
    assert rows(project.versions()) == harvested_rows(shared_maps, common_folder, drawn)
    before = recorded(project)
    assert imported(project, source.folder, drawn.name, "--path", "docs")["days"] == []
    assert recorded(project) == before


def test_a_folder_that_moved_is_followed(
    project: Project, shared_maps: Path, common_folder: Path, tmp_path: Path
) -> None:
    """The second version lies elsewhere in the repository, and what lay in the old place is gone there."""
    drawn = MAPS[0]
    project.add_map(drawn.name, URL)
    source = FastImport(tmp_path / "map.git")
    for version, day in dated(shared_maps, drawn):
        place = "web/old map" if version < 3 else "docs"
        files = {f"{place}/{path}": body for path, body in files_of(shared_maps, drawn.name, version).items()}
        source.commit(moment_of(day), files, whole=True)
    source.written()
    moved = git(source.folder, "rev-parse", "main~1").strip()
    told = imported(project, source.folder, drawn.name, "--path", "web/old map", "--path", f"docs@{moved}")
    assert told["unread"] == []
    assert rows(project.versions()) == harvested_rows(shared_maps, common_folder, drawn)


def test_of_several_commits_of_a_day_the_last_one_counts_by_the_maps_own_midnight(
    project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    """At 23:30 in London it is the next day in Berlin."""
    project.add_map("small", URL, timezone="Europe/Berlin")
    source = FastImport(tmp_path / "map.git")
    source.commit(moment_of("2016-10-06", 9), files_of(shared_maps, "alexjj", 1))
    source.commit(moment_of("2016-10-06", 12), {"1.txt": b"no tile"})
    source.commit(moment_of("2016-10-06", 23), files_of(shared_maps, "alexjj", 2), whole=True)
    told = imported(project, source.written(), "small")
    assert {one["day"]: one["counts"] for one in told["days"]} == {
        "2016-10-06": {"add": 29},
        "2016-10-07": {"ign": 14, "upd": 15, "add": 33},
    }
    # What is committed on a day that was imported takes the place of what the day had.
    before, path = (
        project.versions(),
        next(path for path in files_of_branch(source) if path.endswith("0.png")),
    )
    old, new = files_of(shared_maps, "alexjj", 2)[path], dot(1)
    source.commit(moment_of("2016-10-07", 12), {path: new})
    told = imported(project, source.written(), "small")
    assert [one["day"] for one in told["days"]] == ["2016-10-07"]
    (gone,), (come,) = before - project.versions(), project.versions() - before
    assert (gone.sha1, come.sha1) == (sha1(old).hexdigest(), sha1(new).hexdigest())
    assert (gone.tile, gone.day) == (come.tile, come.day)


@pytest.fixture
def small(project: Project, shared_maps: Path, tmp_path: Path) -> FastImport:
    """The repository of a small map in `maps.toml`, with the map at its top; never imported."""
    project.add_map("small", URL)
    return map_repository(shared_maps, "alexjj", [(1, "2016-10-06"), (2, "2016-10-07")], tmp_path / "map.git")


def refused(project: Project, *arguments: str, status: int) -> str:
    """`scrapy import ...`, which must write one line and change nothing."""
    before = recorded(project) if project.database.exists() else None
    done = project.scrapy("import", *arguments, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    if status == ExitStatus.USAGE:
        assert "fetching" not in done.stderr
    assert (recorded(project) if before is not None else None) == before
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("error: ")
    return line


def test_a_branch_that_was_rewritten_is_imported_only_if_that_is_known(
    small: FastImport, project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    imported(project, small.folder, "small")
    other = FastImport(tmp_path / "other.git")
    files = files_of(shared_maps, "alexjj", 2)
    path = next(path for path in files if path.endswith("0.png"))
    other.commit(moment_of("2016-10-05"), files)
    other.commit(moment_of("2016-10-07"), {path: dot(1)})
    other.commit(moment_of("2016-10-09"), {path: files[path]})
    git(small.folder, "fetch", "--quiet", str(other.written()), "+main:main")
    line = refused(project, "git", str(small.folder), "small", status=5)
    assert "was rewritten (a forced push): it no longer has commit" in line
    told = imported(project, small.folder, "small", "--rewritten")
    assert [one["day"] for one in told["days"]] == ["2016-10-07", "2016-10-09"]
    changed = {version for version in project.versions() if version.day == "2016-10-09"}
    assert [version.sha1 for version in changed] == [sha1(files[path]).hexdigest()]


def test_without_a_map_in_the_folder_a_line_names_where_one_is(
    small: FastImport, project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    deep = map_repository(shared_maps, "alexjj", [(1, "2016-10-06")], tmp_path / "deep.git", "web/map")
    line = refused(project, "git", str(deep.folder), "small", status=5)
    assert "no map was found" in line
    assert "web/map" in line
    other = map_repository(shared_maps, "alexjj", [(1, "2016-10-06")], tmp_path / "other.git")
    line = refused(project, "git", str(other.folder), "small", "--path", "dosc", status=5)
    assert "no map was found" in line
    plain = FastImport(tmp_path / "plain.git")
    plain.commit(moment_of("2016-10-06"), {"a.txt": b"a"})
    line = refused(project, "git", str(plain.written()), "small", status=5)
    assert "nothing was changed: it has none of the files that renderers write" in line


def test_a_submodule_a_pointer_and_a_shallow_clone_are_told_in_one_line_each(
    small: FastImport, project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    outer = FastImport(tmp_path / "outer.git")
    commit = git(small.folder, "rev-parse", "main").strip()
    outer.commit(moment_of("2016-10-06"), {"a.txt": b"a"}, extra=f"M 160000 {commit} docs\n")
    line = refused(project, "git", str(outer.written()), "small", "--path", "docs", status=5)
    assert "docs is a submodule" in line
    pointers = FastImport(tmp_path / "pointers.git")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 1234\n" % 1
    files = files_of(shared_maps, "alexjj", 1)
    pointers.commit(
        moment_of("2016-10-06"),
        {path: pointer if path.endswith(".png") else body for path, body in files.items()},
    )
    line = refused(project, "git", str(pointers.written()), "small", status=5)
    assert "is a Git-LFS pointer" in line
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{small.folder}", "shallow")
    line = refused(project, "git", str(tmp_path / "shallow"), "small", status=2)
    assert "is a shallow clone" in line
    assert "fetch --unshallow" in line


def test_what_is_no_repository_is_told_in_one_line(project: Project, tmp_path: Path) -> None:
    project.add_map("small", URL)
    (tmp_path / "empty").mkdir()
    assert "is no git repository" in refused(project, "git", str(tmp_path / "empty"), "small", status=2)
    assert "neither a folder nor an address" in refused(project, "git", "nowhere", "small", status=2)
    closed = "http://127.0.0.1:9/map.git"
    assert f"{closed} cannot be fetched" in refused(project, "git", closed, "small", status=5)
    assert "did you mean 'git'?" in refused(project, "gti", str(tmp_path), "small", status=2)
    assert "--day is for scrapy import folder" in refused(
        project, "git", str(tmp_path), "small", "--day", "2024-05-01", status=2
    )


def test_a_killed_import_of_two_thousand_commits_goes_on(project: Project, small: FastImport) -> None:
    """Forty commits a day. What is recorded at the kill is not recorded again; nothing else is missing."""
    tiles = [path for path in files_of_branch(small) if re.fullmatch(r"[^/]+(/[0-3])+\.png", path)]
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


@pytest.mark.parametrize(
    ("address", "path", "page"),
    [
        ("https://github.com/Owner/map", "", "https://owner.github.io/map/"),
        ("https://github.com/Owner/map.git", "docs", "https://owner.github.io/map/"),
        ("git@github.com:owner/owner.github.io.git", "web map/", "https://owner.github.io/web%20map/"),
        ("https://gitlab.com/group/sub/map/", "", "https://group.gitlab.io/sub/map/"),
        ("https://git.example.net/map.git", "", None),
    ],
)
def test_the_page_of_a_repository_is_where_its_host_publishes_it(
    address: str, path: str, page: str | None
) -> None:
    """As the hosts' own manuals say: GitHub Pages, and GitLab Pages' default domain names."""
    assert page_of(address, path) == page


def test_one_command_gives_the_owner_of_a_repository_its_past(
    project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    """There is no maps.toml yet. Git is told to take a repository here for the one on GitHub."""
    source = map_repository(shared_maps, "alexjj", [(1, "2016-10-06")], tmp_path / "map.git", "docs")
    done = project.scrapy_from_nothing(
        *("import", "git", "https://github.com/owner/map", "mine", "--path", "docs"),
        GIT_CONFIG_COUNT="1",
        GIT_CONFIG_KEY_0=f"url.{source.folder.as_uri()}.insteadOf",
        GIT_CONFIG_VALUE_0="https://github.com/owner/map",
    )
    assert done.returncode == 0, done.stderr
    assert "added map 'mine'" in done.stderr
    assert len(project.versions()) == 29
    entry = tomllib.loads(project.maps_file.read_text(encoding="utf-8"))["mine"]
    assert entry == {
        "url": "https://owner.github.io/map/",
        "git": {"url": "https://github.com/owner/map", "path": "docs"},
    }


def days_of(project: Project) -> list[str]:
    """The days that the history has; none before its tables are made."""
    try:
        return [day for (day,) in project.query("SELECT day FROM harvests")]
    except sqlite3.OperationalError:
        return []


def files_of_branch(repository: FastImport) -> list[str]:
    return git(repository.folder, "ls-tree", "-r", "--name-only", "main").splitlines()


def dot(number: int) -> bytes:
    """A small image that differs from all others."""
    written = io.BytesIO()
    Image.new("RGB", (96, 96), (number % 256, number // 256, 7)).save(written, "PNG")
    return written.getvalue()
