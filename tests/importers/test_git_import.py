"""Days of a repository, imported into a history in this process."""

from __future__ import annotations

from datetime import date
from hashlib import sha1
from typing import TYPE_CHECKING

import pytest

from tests.importers.imports import NOW, PLAIN, Imports, dot, repository
from tests.servers.repositories import FastImport, git, moment_of
from tileharvest.errors import SiteError
from tileharvest.history.imported_day import ImportedDay, record_day
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from pathlib import Path

DEEPEST, ABOVE = "2/1/1.png", ("0/0/0.png", "1/0/0.png")
TILE = Tile.at(0, 1, 1)
FIRST, SECOND = "2024-05-01", "2024-05-03"
TILES = {FIRST: {f"web/tiles/{path}": dot(1) for path in (*ABOVE, DEEPEST)}}


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path / "data")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The repository of a map of plain tiles. Its second day changes a tile; another one changes no tile."""
    days = {**TILES, "2024-05-02": {"README.md": b"a map"}, SECOND: {f"web/tiles/{DEEPEST}": dot(2)}}
    return repository(tmp_path / "map.git", days).folder


def test_an_import_that_finds_no_tile_fails_and_names_the_folder_that_has_them(
    imports: Imports, plain: Path
) -> None:
    hint = r"no map was found in .*; nothing was changed: name its folder, maybe web/tiles$"
    with pytest.raises(SiteError, match=hint):
        imports.git(plain)
    assert imports.git(plain, "web/tiles").days == [date(2024, 5, 1), date(2024, 5, 3)]


def test_every_tile_that_the_tree_lists_is_imported(imports: Imports, tmp_path: Path) -> None:
    """No walk leads to a tile without a tile above it, such as land far away from the rest."""
    files = {DEEPEST: dot(1), "2/3/3.png": dot(2), "3/0/0.png": dot(3), "a.png": dot(4)}
    days = {FIRST: files, SECOND: {"2/3/0.png": dot(5), "2/3/3.png": None}}
    assert imports.git(repository(tmp_path / "map.git", days).folder).outcomes == {
        Outcome.ADDED: 3,
        Outcome.IGNORED: 1,
        Outcome.GONE: 1,
    }
    assert imports.versions(Tile.at(0, 3, 3)) == {FIRST: sha1(dot(2)).hexdigest(), SECOND: None}


def test_a_repository_without_any_tile_of_the_map_is_told_with_a_path_that_was_looked_for(
    imports: Imports, tmp_path: Path
) -> None:
    source = repository(tmp_path / "map.git", {FIRST: {"0/0/0.jpg": dot(1)}})
    with pytest.raises(SiteError, match=r"has none of the tiles that map 'plain' keeps, such as 0/0/0\.png$"):
        imports.git(source.folder)


def test_a_folder_without_a_tile_fails_and_names_the_one_that_has_them(
    imports: Imports, tmp_path: Path
) -> None:
    file = tmp_path / "backup" / "tiles" / ABOVE[0]
    file.parent.mkdir(parents=True)
    file.write_bytes(dot(1))
    with pytest.raises(SiteError, match=r"no map was found in .*: is it in .*/backup/tiles\?"):
        imports.of_folder(tmp_path / "backup", date(2024, 5, 1))


def test_days_that_an_import_recorded_from_the_wrong_folder_are_replaced(
    imports: Imports, plain: Path
) -> None:
    """Such days were recorded as complete and without a tile."""
    commits = git(plain, "log", "--format=%H", "--reverse").split()
    layer = Layer("zoom2", Pyramid(2), "png")
    with imports.history as history:
        for commit, day in zip(commits, (1, 2, 3), strict=True):
            empty = ImportedDay(
                map_name=PLAIN.name,
                source=f"git {plain}",
                state=commit,
                day=date(2024, 5, day),
                imported=NOW,
                renderer="xyz",
                layers=[layer],
                tiles=[],
                areas={"zoom2": [TileRange(0, -99, 99, -99, 99)]},
            )
            record_day(history, empty)
    assert imports.git(plain, "web/tiles").days == [date(2024, 5, day) for day in (1, 2, 3)]
    assert imports.versions(TILE) == {FIRST: sha1(dot(1)).hexdigest(), SECOND: sha1(dot(2)).hexdigest()}
    assert imports.git(plain, "web/tiles").days == []


@pytest.mark.parametrize("is_fetched", [False, True])
def test_where_a_branch_has_no_tile_those_that_have_some_are_named(
    imports: Imports, tmp_path: Path, *, is_fetched: bool
) -> None:
    folder = repository(tmp_path / "map.git", {FIRST: {"README.md": b"The map is elsewhere."}}).folder
    for branch, files in (("gh-pages", {ABOVE[0]: dot(1)}), ("src", {"draw.py": b"#"})):
        other = FastImport(folder, branch)
        other.commit(moment_of(FIRST), files)
        other.written()
    with pytest.raises(SiteError, match=r"; name a branch that has one, maybe gh-pages$"):
        imports.git(folder.as_uri() if is_fetched else folder)
    assert imports.git(folder, branch="gh-pages").days == [date(2024, 5, 1)]
