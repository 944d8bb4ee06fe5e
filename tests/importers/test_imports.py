"""Days of repositories and folders, imported into a history in this process."""

import os
from datetime import date
from hashlib import sha1
from pathlib import Path
from shutil import copytree
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from tests.importers.imports import PLAIN, Imports, dot, repository
from tests.servers.minedmap import example, published_as_minedmap
from tests.servers.published import published
from tests.servers.repositories import FastImport, git, moment_of
from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.importers.snapshot import FolderSnapshot, is_configuration, maps_within
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.registry import RENDERERS
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 1234\n" % 1
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


def test_an_import_without_a_tile_records_nothing_and_days_without_a_commit_in_the_folder_are_left_out(
    imports: Imports, plain: Path, tmp_path: Path
) -> None:
    """The folder may be one within a clone."""
    with pytest.raises(SiteError, match=r"has none of the tiles that map 'plain' keeps, such as 0/0/0\.png"):
        imports.git(plain)
    assert imports.git(plain, "./web/tiles/").days == [date(2024, 5, 1), date(2024, 5, 3)]
    git(tmp_path, "clone", "--quiet", plain.as_uri(), "clone")
    again = Imports(tmp_path / "again")
    assert again.git(tmp_path / "clone" / "web" / "tiles").days == [date(2024, 5, 1), date(2024, 5, 3)]
    assert again.git(plain.as_uri(), "web/tiles").days == []


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


@pytest.mark.parametrize("is_fetched", [False, True])
def test_where_a_branch_has_no_tile_those_that_have_some_are_named(
    imports: Imports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_fetched: bool
) -> None:
    """A hook of git, which names its own repository to every git, may run the import."""
    folder = repository(tmp_path / "map.git", {FIRST: {"README.md": b"The map is elsewhere."}}).folder
    for branch, files in (("gh-pages", {ABOVE[0]: dot(1)}), ("src", {"draw.py": b"#"})):
        other = FastImport(folder, branch)
        other.commit(moment_of(FIRST), files)
        other.written()
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    with pytest.raises(SiteError, match=r"; name a branch that has images there, maybe gh-pages$"):
        imports.git(folder.as_uri() if is_fetched else folder)
    assert imports.git(folder, branch="gh-pages").days == [date(2024, 5, 1)]


def test_a_day_that_another_source_has_is_compared_with_the_next_day(
    imports: Imports, plain: Path, tmp_path: Path
) -> None:
    """The folder has the tile of the later day already, and git's first day is left out."""
    git(tmp_path, "clone", "--quiet", plain.as_uri(), "clone")
    backup = tmp_path / "clone" / "web" / "tiles"
    for _ in range(2):
        assert imports.of_folder(backup, date(2024, 5, 1)).outcomes == {Outcome.ADDED: 3}
    later = repository(tmp_path / "other.git", TILES | {SECOND: {"web/tiles/2/0/0.png": dot(3)}})
    imports.git(later.folder, "web/tiles")
    assert imports.versions(TILE) == {FIRST: sha1(dot(2)).hexdigest(), SECOND: sha1(dot(1)).hexdigest()}


def test_tiles_that_the_map_keeps_no_more_are_not_counted(imports: Imports, plain: Path) -> None:
    imports.git(plain, "web/tiles", branch="main~1")
    narrow = replace(PLAIN, zooms=(0, 0))
    assert Imports(imports.folder, narrow).git(plain, "web/tiles").outcomes == {Outcome.UPDATED: 1}


def test_links_to_other_folders_are_followed(tmp_path: Path) -> None:
    for folder in ("disk", "map"):
        (tmp_path / folder).mkdir()
    (tmp_path / "disk" / "0.png").touch()
    (tmp_path / "map" / "tiles").symlink_to("../disk")
    (tmp_path / "map" / "tiles" / "all").symlink_to(".")
    assert FolderSnapshot(tmp_path / "map").paths == {"tiles/0.png"}


def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its tiles would be gone."""
    monkeypatch.setattr(os, "scandir", Mock(side_effect=PermissionError(13, "Permission denied", "web")))
    with pytest.raises(SiteError, match=r"^web cannot be read \(Permission denied\); the day was not"):
        FolderSnapshot(tmp_path)


def test_a_folder_without_a_map_is_told_with_the_one_that_has_it(tmp_path: Path) -> None:
    plain = Imports(tmp_path / "data")
    drawn = Imports(tmp_path / "data", MapDescription(name="drawn", url="https://map.example.net/"))
    for name, body in {
        "plain/tiles/0/0/0.png": dot(1),
        "drawn/web/map/overviewerConfig.js": b"var overviewerConfig = {",
        "other/a.txt": b"",
        "strange/config.js": b"var other = {};",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(body)
    (tmp_path / "empty").mkdir()
    for imports, folder, words in (
        (plain, "plain", r"no map was found in .*: .* has none of the tiles that map 'plain' keeps, such as"),
        (drawn, "drawn", r"no map was found in .*: is it in .*/web/map\?"),
        (drawn, "drawn/web/map", "is cut off or damaged"),
        (drawn, "other", "nothing was changed: it has none of the files that renderers write"),
        (drawn, "strange", r"nothing was changed: no renderer writes config\.js as it is there$"),
        (drawn, "empty", "nothing was changed: the folder is empty"),
    ):
        with pytest.raises(SiteError, match=words):
            imports.of_folder(tmp_path / folder, date(2024, 5, 1))


def test_a_map_that_has_moved_within_its_repository_is_imported_folder_by_folder(
    imports: Imports, tmp_path: Path
) -> None:
    days = {
        FIRST: {f"web/old map/{path}": dot(1) for path in (*ABOVE, DEEPEST)},
        SECOND: {f"web/old map/{path}": None for path in (*ABOVE, DEEPEST)}
        | {f"docs/{path}": dot(2 if path == DEEPEST else 1) for path in (*ABOVE, DEEPEST)},
    }
    folder = repository(tmp_path / "map.git", days).folder
    ((day, why),) = imports.git(folder, "web/old map").unread
    assert (str(day), "the map has moved rather than vanished" in why) == (SECOND, True)
    assert imports.git(folder, "docs").days == [day]
    assert imports.versions(TILE) == {FIRST: sha1(dot(1)).hexdigest(), SECOND: sha1(dot(2)).hexdigest()}


def test_of_several_commits_of_a_day_the_last_one_counts_by_the_maps_own_midnight(tmp_path: Path) -> None:
    """At 23:30 in London it is the next day in Berlin."""
    imports = Imports(tmp_path / "data", replace(PLAIN, timezone="Europe/Berlin"))
    made = FastImport(tmp_path / "map.git")
    for number, hour in ((1, 9), (2, 12), (3, 23)):
        made.commit(moment_of(FIRST, hour), {path: dot(number) for path in (*ABOVE, DEEPEST)})
    assert imports.git(made.written()).days == [date(2024, 5, 1), date(2024, 5, 2)]
    assert list(imports.versions(TILE).values()) == [sha1(dot(number)).hexdigest() for number in (2, 3)]
    # What is committed on a day that was imported takes the place of what the day had, whatever a clock said.
    made.commit(moment_of("2044-05-01"), {DEEPEST: dot(5)})
    made.commit(moment_of("2024-05-02", 12), {DEEPEST: dot(4)})
    assert imports.git(made.written()).days == [date(2024, 5, 2)]
    assert list(imports.versions(TILE).values()) == [sha1(dot(number)).hexdigest() for number in (2, 4)]


def test_a_branch_that_was_rewritten_is_imported_only_if_that_is_known(
    imports: Imports, plain: Path, tmp_path: Path
) -> None:
    imports.git(plain, "web/tiles")
    days = {"2024-05-02": TILES[FIRST], "2024-05-04": {f"web/tiles/{DEEPEST}": dot(5)}}
    other = repository(tmp_path / "other.git", days)
    git(plain, "fetch", "--quiet", str(other.folder), "+main:main")
    with pytest.raises(SiteError, match=r"was rewritten \(a forced push\): it no longer has commit"):
        imports.git(plain, "web/tiles")
    assert imports.git(plain, "web/tiles", rewritten=True).days == [date(2024, 5, 4)]
    assert imports.versions(TILE)["2024-05-04"] == sha1(dot(5)).hexdigest()


def test_what_git_alone_does_not_have_is_told(imports: Imports, plain: Path, tmp_path: Path) -> None:
    pointers = repository(tmp_path / "pointers.git", {FIRST: {ABOVE[0]: LFS}})
    with pytest.raises(SiteError, match="is a Git-LFS pointer"):
        imports.git(pointers.folder)
    git(tmp_path, "clone", "--quiet", "--depth", "1", plain.as_uri(), "shallow")
    with pytest.raises(ConfigurationError, match=r"is a shallow clone.*fetch --unshallow"):
        imports.git(tmp_path / "shallow")
    with pytest.raises(ConfigurationError, match="is not a git repository"):
        imports.git(tmp_path)


URL = "https://map.example.net/world/"


@pytest.mark.parametrize("name", ["My World (1)", "ä&b", "世界"])
def test_a_layer_may_have_any_name(shared_maps: Path, tmp_path: Path, name: str) -> None:
    site = published(shared_maps, "alexjj", 1, tmp_path / "site")
    config = site / "overviewerConfig.js"
    config.write_text(config.read_text().replace("world-lighting", name))
    (site / "world-lighting").rename(site / name)
    drawn = Imports(tmp_path / "data", MapDescription(name="drawn", url=URL))
    assert drawn.of_folder(site, date(2024, 5, 1)).outcomes == {Outcome.ADDED: 29}


def test_the_map_of_a_packages_renderer_is_found_and_read(
    shared_maps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = published_as_minedmap(shared_maps, "duckmap", 6, tmp_path / "made")
    site = copytree(made, tmp_path / "tree" / "map")
    tree = FolderSnapshot(tmp_path / "tree")
    assert maps_within(tree.paths) == []
    monkeypatch.setitem(RENDERERS, "minedmap", example())
    assert maps_within(tree.paths) == ["map"]
    assert is_configuration("map/data/info.json")
    imports = Imports(tmp_path / "data", MapDescription(name="m", url=URL))
    assert imports.of_folder(site, date(2025, 5, 15)).outcomes == {Outcome.ADDED: 77}
