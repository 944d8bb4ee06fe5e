"""Archives of KedamaDiff, made of a real map's harvested versions, become the history of the map."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.end_to_end.project import Project, RecordedVersion
from tests.end_to_end.real_maps import ANTWORLD, ANTWORLD_DEPTH, Harvested
from tests.end_to_end.rendering import LAYER
from tests.fuzz import assert_told, fuzzed
from tests.importers.imports import Watched
from tests.servers.nginx import Nginx
from tests.servers.published import published
from tileharvest.errors import SiteError, TileHarvestError
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.importers.kedamadiff import KedamaDiffArchive, import_kedamadiff, tile_of
from tileharvest.maps.description import MapDescription
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile, Zone

NOW = datetime(2022, 1, 1, tzinfo=UTC)
SAVENAME = "antworld_day"
SCHEMA: Final = """
    CREATE TABLE crawl_records(
        file_name varchar(40) NOT NULL, crawled_at varchar(8) NOT NULL, map_rotation varchar(2),
        ETag varchar(30) NOT NULL, zoom_level INTEGER NOT NULL, coord_x INTEGER NOT NULL,
        coord_y INTEGER NOT NULL, frozen boolean DEFAULT False, deleted boolean DEFAULT False
    );
    CREATE TABLE map_attributes(
        id INTEGER PRIMARY KEY NOT NULL, map_name varchar(30), map_savename varchar(30)
    );
    CREATE TABLE last_update(
        id INTEGER PRIMARY KEY NOT NULL, date varchar(8), total_depth INTEGER, renderer varchar(128)
    );
"""
"""As `util/update_history_DBConn.py` of xmoiduts/KedamaDiff has it."""


@pytest.fixture
def archive(antworld: list[Harvested], tmp_path: Path) -> Path:
    """An archive with all versions of a real map. It has both forms; the newer one counts."""
    bodies: dict[str | None, bytes] = {sha1(one).hexdigest(): one for one in antworld[-1].stored.values()}
    updates: dict[str, list[dict[str, str]]] = {}
    latest, rows, folder = {}, [], tmp_path / "archive"
    for one in sorted(antworld[-1].versions, key=lambda one: one.day):
        name, day = f"{one.zoom}_{one.x}_{one.y}.jpg", one.day.replace("-", "")
        image = folder / "images" / SAVENAME / day / name
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(bodies[one.sha1])
        rows.append((name, day, one.etag, one.zoom, one.x, one.y))
        # The older form keeps the ETag with which an image came, and the last one of each file.
        updates.setdefault(name, []).append({"ETag": '"old"', "Save_in": f"images/{SAVENAME}/{day}/"})
        latest[name] = {"ETag": one.etag}
    database(folder).parent.mkdir(parents=True)
    database(folder).with_name("update_history.json").write_text(json.dumps(updates))
    database(folder).with_name("latest_ETag.json").write_text(json.dumps(latest))
    with closing(sqlite3.connect(database(folder))) as connection, connection:
        connection.executescript(SCHEMA)
        columns = "file_name, crawled_at, ETag, zoom_level, coord_x, coord_y"
        connection.executemany(f"INSERT INTO crawl_records ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.execute("INSERT INTO map_attributes VALUES (1, ?, ?)", (LAYER, SAVENAME))
        last = (rows[-1][1], ANTWORLD_DEPTH)
        connection.execute("INSERT INTO last_update VALUES (1, ?, ?, 'Overviewer')", last)
    return folder


def database(archive: Path) -> Path:
    return archive / "data" / SAVENAME / "crawl_records.sqlite3"


def change(archive: Path, *statements: str) -> None:
    """Changes the database, as a person could."""
    with closing(sqlite3.connect(database(archive))) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def imported(
    archive: Path,
    data: Path,
    *,
    savename: str | None = None,
    layer: str | None = None,
    now: datetime = NOW,
    **entry: Any,
) -> Watched:
    watch, opened, store = Watched(), KedamaDiffArchive.open(archive, savename), FileStore(data / "tiles")
    with History.open(f"sqlite:///{data / 'history.sqlite'}") as history:
        into = MapDescription(name=ANTWORLD, url="http://127.0.0.1/", **entry)
        watch.outside = import_kedamadiff(opened, into, history, store, now, watch, layer)
    return watch


def told(versions: set[RecordedVersion], *, with_etags: bool) -> set[RecordedVersion]:
    """KedamaDiff keeps no Last-Modified; its older form has newer ETags for the latest version alone."""
    latest = {one.tile: one.day for one in sorted(versions, key=lambda one: one.day)}
    return {
        one._replace(last_modified=None, etag=one.etag if with_etags or one.day == latest[one.tile] else None)
        for one in versions
    }


@pytest.mark.parametrize("is_newer", [True, False])
def test_the_history_is_the_harvested_one_and_the_next_harvest_finds_nothing_to_fetch(
    archive: Path,
    antworld: list[Harvested],
    project: Project,
    nginx: Callable[..., Nginx],
    shared_maps: Path,
    tmp_path: Path,
    *,
    is_newer: bool,
) -> None:
    if not is_newer:
        database(archive).unlink()
    watch = imported(archive, project.data, layer=None if is_newer else LAYER)
    assert [day.isoformat() for day in watch.days] == [one.day for one in antworld]
    harvested = antworld[-1].versions
    found = project.versions()
    assert told(found, with_etags=is_newer) == told(harvested, with_etags=is_newer)
    assert project.stored() == antworld[-1].stored
    server = nginx(published(shared_maps, ANTWORLD, len(antworld), tmp_path / "site"))
    project.add_map(ANTWORLD, server.url)
    project.crawl(ANTWORLD, "2021-05-13")
    last = project.harvests(ANTWORLD)[-1]
    assert (last["counts"]["ign"], last["walk"]) == (len(antworld[-1].images), "full")
    assert set(last["counts"]) == {"ign", "404"}
    assert not [line for line in server.log() if line.method == "GET" and line.path.endswith(".png")]
    assert told(project.versions(), with_etags=is_newer) == told(harvested, with_etags=is_newer)


def test_days_that_have_not_begun_are_left_out_until_then_and_days_with_other_records_come_anew(
    archive: Path, project: Project, antworld: list[Harvested]
) -> None:
    first, *later = (date.fromisoformat(one.day) for one in antworld)
    now = datetime(first.year, first.month, first.day, tzinfo=UTC) - timedelta(days=1)
    watch = imported(archive, project.data, now=now)
    assert (watch.days, watch.unread) == ([first], [(day, "the day has not begun") for day in later])
    assert imported(archive, project.data).days == later
    versions, again = project.versions(), imported(archive, project.data)
    assert (again.days, again.expected, again.done) == ([], 4, 4)
    change(archive, "UPDATE crawl_records SET ETag = '\"new\"' WHERE rowid = 1")
    assert len(imported(archive, project.data).days) == 1
    changed = project.versions() ^ versions
    assert {one.etag for one in changed} - {one.etag for one in versions} == {'"new"'}


def test_missing_images_are_listed_and_imported_when_they_are_found_again(
    archive: Path, project: Project
) -> None:
    """A day none of whose images is there is left out."""
    images = archive / "images"
    number = len(list(images.rglob("*.jpg")))
    images.rename(archive / "elsewhere")
    watch = imported(archive, project.data)
    assert (watch.days, len(watch.unread), len(watch.missing)) == ([], 4, number)
    (archive / "elsewhere").rename(images)
    damaged = min(images.rglob("*.jpg"))
    body = damaged.read_bytes()
    damaged.write_bytes(b"version https://git-lfs.github.com")
    watch = imported(archive, project.data)
    ((_, file, why),) = watch.missing
    assert (len(watch.days), file, why.partition(":")[0]) == (4, damaged.name, "the file is not an image")
    damaged.write_bytes(body)
    again = imported(archive, project.data)
    assert (len(again.days), again.missing) == (1, [])


def test_only_what_the_map_keeps_is_imported(archive: Path, project: Project) -> None:
    watch = imported(archive, project.data, zooms=(-6, -4))
    assert {one.zoom for one in project.versions()} == {-6, -5, -4}
    assert watch.outside + len(project.versions()) == len(list(archive.rglob("*.jpg")))
    corner = Zone(center=(127, 127), width=1, height=1, zoom=0)
    with pytest.raises(SiteError, match="map 'antworld' keeps none of the tiles of antworld_day"):
        imported(archive, project.data / "other", zooms=(0, 0), zones=(corner,))


def test_file_names_are_the_grids_or_paths_of_overviewer() -> None:
    """By the known values of depth 12; and of the same tile before the map has grown."""
    for file, tile in {
        "-3_-440_216.jpg": Tile(-3, -440, 216),
        "_0_3_3_3_2_0_1_2_0.jpg": Tile(-3, -440, 216),
        "_1_2_2_2_2_2_2_2_2.jpg": Tile(-3, 8, 8),
        "_3_0_0_0_0_0_0_0_0.jpg": Tile(-3, 8, -8),
        "_1_2_2_2_2_2_2_2.jpg": Tile(-3, 8, 8),
    }.items():
        assert tile_of(file) == tile


ROTATIONS: Final = "UPDATE crawl_records SET map_rotation = iif(rowid % 2, 'tr', 'tl')"
DAMAGED: Final = r"the records in .* cannot be read .*mend or restore"


@pytest.mark.parametrize(
    ("damage", "options", "words"),
    [
        (shutil.rmtree, {}, "there is no folder"),
        (lambda its: shutil.rmtree(its / "data"), {}, "is not an archive of KedamaDiff: no data/SAVENAME/"),
        (lambda its: shutil.copytree(its / "data" / SAVENAME, its / "data" / "v2"), {}, "y, v2: say which"),
        (lambda its: change(its, ROTATIONS), {}, "of the rotations tl and tr, and their images share"),
        (lambda its: database(its).write_bytes(b"SQLite format 3\0, cut off"), {}, DAMAGED),
        (lambda its: change(its, "UPDATE crawl_records SET crawled_at = 'monday'"), {}, DAMAGED),
        (lambda its: change(its, "UPDATE last_update SET total_depth = 99"), {}, DAMAGED),
        (lambda its: change(its, "UPDATE map_attributes SET map_name = ''"), {}, "which layer of map 'ant"),
        (lambda _: 0, {"layers": ("night",), "layer": "day"}, r"keeps the layers night by maps\.toml, and"),
    ],
)
def test_what_cannot_be_imported_is_one_line(
    archive: Path, tmp_path: Path, damage: Callable[[Path], object], options: Any, words: str
) -> None:
    damage(archive)
    with pytest.raises(TileHarvestError, match=words):
        imported(archive, tmp_path / "data", **options)


def test_records_that_were_deleted_do_not_count_and_the_rotation_of_the_others_names_mapcrafters_layer(
    archive: Path, project: Project
) -> None:
    change(
        archive,
        ROTATIONS,
        "UPDATE crawl_records SET deleted = 1 WHERE map_rotation = 'tl'",
        "UPDATE last_update SET renderer = 'Mapcrafter'",
        "UPDATE map_attributes SET map_name = 'map_world'",
    )
    assert imported(archive, project.data, savename="antworld_day").days
    with History.open_read_only(f"sqlite:///{project.database}") as history:
        assert [one.name for one in map_outline(history, ANTWORLD).layers] == ["map_world/tr"]


VALUES: Any = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.binary(max_size=12),
    st.sampled_from(["20180202", "-3_8_8.jpg", "_1_2_2.jpg", "99999999", "0"]),
)


@fuzzed(200)
@given(st.lists(st.tuples(*[VALUES] * 7), min_size=1, max_size=3))
@example([("_1.jpg", "20180202", None, 10**9, 1, 1, None)])
@example([("-1000000000_1_1.jpg", "20180202", None, 0, 1, 1, None)])
def test_any_rows_of_an_archive_are_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    file = folder / "data" / "v2" / "crawl_records.sqlite3"
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(
            "CREATE TABLE crawl_records (file_name, crawled_at, ETag, zoom_level, coord_x, coord_y, deleted)"
        )
        connection.executemany("INSERT INTO crawl_records VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    archive = KedamaDiffArchive(folder, "v2")
    try:
        for day, tiles in archive.days():
            assert isinstance(day, date)
            assert tiles
    except TileHarvestError as error:
        assert_told(error)
