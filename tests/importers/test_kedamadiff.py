"""Archives of KedamaDiff, made from a real map by what its sources say, become the history of the map."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.real_maps import ANTWORLD, ANTWORLD_DEPTH, days
from tests.end_to_end.rendering import LAYER, Rendering
from tests.importers.imports import Watched
from tests.importers.kedamadiff_script import KedamaDiff
from tests.servers.published import published
from tileharvest.errors import ConfigurationError, SiteError, TileHarvestError
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.importers.kedamadiff import KedamaDiffArchive, import_kedamadiff, tile_of
from tileharvest.maps.description import MapDescription
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile, Zone

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.project import Project, RecordedVersion
    from tests.end_to_end.real_maps import Harvested
    from tests.servers.nginx import Nginx
    from tileharvest.history.imported_day import DayRecord

NOW = datetime(2022, 1, 1, tzinfo=UTC)


def imported(
    archive: Path,
    data: Path,
    description: MapDescription | None = None,
    *,
    watch: Watched | None = None,
    savename: str | None = None,
    layer: str | None = None,
) -> Watched:
    watch = watch or Watched()
    opened, store = KedamaDiffArchive.open(archive, savename), FileStore(data / "tiles")
    with History.open(f"sqlite:///{data / 'history.sqlite'}") as history:
        into = description or MapDescription(name=ANTWORLD, url="http://127.0.0.1/")
        watch.outside = import_kedamadiff(opened, into, history, store, NOW, watch, layer)
    return watch


@pytest.fixture(scope="session")
def archived(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> KedamaDiff:
    """An archive with all days of a real map. It has both forms side by side; a test deletes the one that it
    does not need."""
    folder = tmp_path_factory.mktemp("kedamadiff")
    script = KedamaDiff(folder / "archive", "antworld_day")
    for version, day in enumerate(days(shared_maps, ANTWORLD), start=1):
        site = published(shared_maps, ANTWORLD, version, folder / "site")
        script.visit(Rendering(site, ANTWORLD_DEPTH), day)
    script.write_json()
    script.write_database(LAYER, ANTWORLD_DEPTH)
    return script


@pytest.fixture(params=["crawl_records.sqlite3", "update_history.json"])
def archive(request: pytest.FixtureRequest, archived: KedamaDiff, tmp_path: Path) -> KedamaDiff:
    return copied(archived, tmp_path, request.param)


@pytest.fixture
def newer(archived: KedamaDiff, tmp_path: Path) -> KedamaDiff:
    return copied(archived, tmp_path, "crawl_records.sqlite3")


def copied(archived: KedamaDiff, folder: Path, form: str) -> KedamaDiff:
    copy = KedamaDiff(folder / "archive", archived.savename, archived.records)
    shutil.copytree(archived.folder, copy.folder, symlinks=True)
    for file in copy.data.iterdir():
        if file.name.startswith("crawl") != form.startswith("crawl"):
            file.unlink()
    return copy


def told(versions: set[RecordedVersion], *, with_etags: bool) -> set[RecordedVersion]:
    """KedamaDiff keeps no Last-Modified; its older form has newer ETags for the latest version alone."""
    latest = {one.tile: one.day for one in sorted(versions, key=lambda one: one.day)}
    return {
        one._replace(last_modified=None, etag=one.etag if with_etags or one.day == latest[one.tile] else None)
        for one in versions
    }


def test_the_history_is_the_harvested_one_and_the_next_harvest_finds_nothing_to_fetch(
    archive: KedamaDiff,
    antworld: list[Harvested],
    project: Project,
    nginx: Callable[..., Nginx],
    shared_maps: Path,
    tmp_path: Path,
) -> None:
    is_newer = (archive.data / "crawl_records.sqlite3").exists()
    options = {} if is_newer else {"layer": LAYER}
    watch = imported(archive.folder, project.data, **options)  # type: ignore[arg-type]
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


def test_an_import_that_was_stopped_goes_on_and_takes_days_with_other_records_anew(
    newer: KedamaDiff, project: Project
) -> None:
    class Impatient(Watched):
        def recorded(self, day: date, record: DayRecord) -> None:
            super().recorded(day, record)
            if len(self.days) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        imported(newer.folder, project.data, watch=Impatient())
    assert len(imported(newer.folder, project.data).days) == 2
    versions = project.versions()
    again = imported(newer.folder, project.data)
    assert (again.days, again.expected, again.done) == ([], 4, 4)
    newer.change("UPDATE crawl_records SET ETag = '\"new\"' WHERE rowid = 1")
    assert len(imported(newer.folder, project.data).days) == 1
    changed = project.versions() ^ versions
    assert {one.etag for one in changed} - {one.etag for one in versions} == {'"new"'}


def test_missing_images_are_listed_and_imported_when_they_are_found_again(
    newer: KedamaDiff, project: Project
) -> None:
    lost, damaged, *_ = newer.records
    file = newer.image(newer.records[lost][0].day, lost)
    body = file.read_bytes()
    file.unlink()
    newer.image(newer.records[damaged][0].day, damaged).write_bytes(b"version https://git-lfs.github.com")
    watch = imported(newer.folder, project.data)
    assert {(file, why.partition(":")[0]) for _, file, why in watch.missing} == {
        (lost, "the archive has no such image"),
        (damaged, "the file is not an image"),
    }
    file.write_bytes(body)
    again = imported(newer.folder, project.data)
    assert (len(again.days), {name for _, name, _ in again.missing}) == (
        1,
        {damaged} & {name for _, name, _ in again.missing},
    )


def test_a_day_none_of_whose_images_is_there_is_left_out(newer: KedamaDiff, project: Project) -> None:
    shutil.rmtree(newer.folder / "images")
    watch = imported(newer.folder, project.data)
    everything = sum(len(records) for records in newer.records.values())
    assert (watch.days, len(watch.unread), len(watch.missing)) == ([], 4, everything)
    project.add_map(ANTWORLD, "http://127.0.0.1:9/")
    shown = project.scrapy("import", "kedamadiff", str(newer.folder), ANTWORLD, check=False)
    assert (shown.returncode, shown.stdout.splitlines()) == (
        3,
        [
            "missing in the source: 4 days",
            f"missing in the source: {everything} images; --json names them all",
            f"map '{ANTWORLD}': nothing was imported",
        ],
    )


def test_only_what_the_map_keeps_is_imported(newer: KedamaDiff, project: Project) -> None:
    description = MapDescription(name=ANTWORLD, url="http://127.0.0.1/", zooms=(-6, -4))
    watch = imported(newer.folder, project.data, description)
    zooms = {one.zoom for one in project.versions()}
    assert zooms == {-6, -5, -4}
    everything = sum(len(records) for records in newer.records.values())
    assert watch.outside + len(project.versions()) == everything
    corner = Zone(center=(127, 127), width=1, height=1, zoom=0)
    nothing = MapDescription(name="other", url="http://127.0.0.1/", zooms=(0, 0), zones=(corner,))
    with pytest.raises(SiteError, match="map 'other' keeps none of the tiles of antworld_day"):
        imported(newer.folder, project.data / "other", nothing)


@pytest.mark.parametrize(
    ("file", "tile"),
    [
        ("-3_-440_216.jpg", Tile(-3, -440, 216)),
        ("_0_3_3_3_2_0_1_2_0.jpg", Tile(-3, -440, 216)),
        ("_1_2_2_2_2_2_2_2_2.jpg", Tile(-3, 8, 8)),
        ("_3_0_0_0_0_0_0_0_0.jpg", Tile(-3, 8, -8)),
        ("_1_2_2_2_2_2_2_2.jpg", Tile(-3, 8, 8)),
    ],
)
def test_file_names_are_the_grids_or_paths_of_overviewer(file: str, tile: Tile) -> None:
    """By the known values of depth 12; and of the same tile before the map has grown."""
    assert tile_of(file) == tile


def test_an_archive_that_is_not_there_or_not_named_is_told(newer: KedamaDiff, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with pytest.raises(ConfigurationError, match="there is no folder"):
        imported(tmp_path / "none", data)
    with pytest.raises(ConfigurationError, match="is not an archive of KedamaDiff: no data/SAVENAME/crawl"):
        imported(newer.data, data)
    shutil.copytree(newer.data, newer.data.parent / "v2_daytime")
    with pytest.raises(ConfigurationError, match="antworld_day, v2_daytime: say which with --savename"):
        imported(newer.folder, data)
    assert imported(newer.folder, data, savename="antworld_day").days


def test_records_of_several_rotations_are_refused_and_those_that_were_deleted_do_not_count(
    newer: KedamaDiff, tmp_path: Path
) -> None:
    newer.change("UPDATE crawl_records SET map_rotation = 'tl'")
    newer.change("UPDATE crawl_records SET map_rotation = 'tr' WHERE rowid % 2")
    with pytest.raises(ConfigurationError, match="of the rotations tl and tr, and their images share"):
        imported(newer.folder, tmp_path / "data")
    newer.change("UPDATE crawl_records SET deleted = 1 WHERE map_rotation = 'tr'")
    assert imported(newer.folder, tmp_path / "data").days


def test_the_layer_of_a_map_of_mapcrafter_is_the_rotation_that_the_records_name(
    newer: KedamaDiff, project: Project
) -> None:
    newer.change("UPDATE crawl_records SET map_rotation = 'tr'")
    newer.change("UPDATE last_update SET renderer = 'Mapcrafter'")
    newer.change("UPDATE map_attributes SET map_name = 'map_world'")
    imported(newer.folder, project.data)
    with History.open_read_only(f"sqlite:///{project.database}") as history:
        assert [one.name for one in map_outline(history, ANTWORLD).layers] == ["map_world/tr"]


def test_the_layer_must_be_known_and_kept(archived: KedamaDiff, tmp_path: Path) -> None:
    older = copied(archived, tmp_path, "update_history.json")
    with pytest.raises(ConfigurationError, match="which layer of map 'antworld' is the archive of"):
        imported(older.folder, tmp_path / "data")
    description = MapDescription(name=ANTWORLD, url="http://127.0.0.1/", layers=("night",))
    with pytest.raises(ConfigurationError, match=r"keeps the layers night by maps\.toml, and not 'day'"):
        imported(older.folder, tmp_path / "data", description, layer="day")


@pytest.mark.parametrize(
    "damage",
    [
        lambda newer: (newer.data / "crawl_records.sqlite3").write_bytes(b"SQLite format 3\0, cut off"),
        lambda newer: newer.change("UPDATE crawl_records SET crawled_at = 'monday'"),
    ],
    ids=["cut off", "no day"],
)
def test_records_that_cannot_be_read_are_told_in_a_line(
    newer: KedamaDiff, tmp_path: Path, damage: Callable[[KedamaDiff], object]
) -> None:
    damage(newer)
    with pytest.raises(TileHarvestError, match=r"the records in .* cannot be read .*mend or restore"):
        imported(newer.folder, tmp_path / "data")
