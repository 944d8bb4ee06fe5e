"""Trees restored of a history, beside the published files of every shared map."""

import re
import sqlite3
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Final

import pytest
from PIL import Image, ImageChops, ImageStat

from tests.end_to_end.real_maps import days
from tests.export.conftest import Count, most_bytes_of_a_file
from tests.history.making import put_empty_history
from tests.importers.imports import Imports
from tests.servers.published import published
from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.export.restored_tree import PastSite, Restored, _path, restore
from tileharvest.history.outlines import map_outline
from tileharvest.maps.description import MapDescription
from tileharvest.pictures.pixels import on_ground

URL: Final = "https://map.example.net/world/"
VERSIONS: Final = {
    "antworld": (1, 4),
    "alexjj": (1, 2),
    "jgore43": (1, 4),
    "richhall": (1,),
    "duckmap": (1, 2),
    "sbatserver": (1, 6),
    "labyrinthmc": (1, 5),
    "helmetgreen": (1, 4),
    "mrozbarry": (1, 4),
}
NEVER_ASKED: Final = re.compile(
    r".*blank\.png|.*/rstate/.*|.*/metadata/.*\.csv|.*\.hash|.*/blockinfo/.*|robots\.txt"
    r"|standalone/.*|.*/map\.settings|tiles/world_nether/flat/.*/zzzzz_.*|.*/5/-1_0\.png"
)
"""Files of these maps that no walk and no probe asks for."""


def past_map(folder: Path, name: str, **keys: object) -> Imports:
    """A map whose versions are imported, to be restored."""
    put_empty_history(folder / "history.sqlite")
    return Imports(folder, MapDescription(name=name, url=URL, **keys))  # type: ignore[arg-type]


def restored(past: Imports, day: date, target: Path, most: int | None = None) -> Restored:
    """Restores the map, with room for so many bytes of a file on the disk."""
    watch = Count()
    with past.history as history:
        outline = map_outline(history, past.description.name)
        site = PastSite.on(history, past.description, outline, day)
        with most_bytes_of_a_file(most):
            told = restore(site, past.store, target, watch)
    assert watch.done == watch.expected
    return told


def files(folder: Path) -> dict[str, bytes]:
    """All but the image of the whole map, which is composed."""
    there = (file for file in folder.rglob("*") if file.is_file() and file.name != "base.png")
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in there}


def times(folder: Path, names: Mapping[str, bytes]) -> dict[str, int]:
    return {name: int((folder / name).stat().st_mtime) for name in names}


@pytest.mark.parametrize("name", VERSIONS)
def test_every_map_is_restored_as_it_was_published(name: str, shared_maps: Path, tmp_path: Path) -> None:
    assert {one.parent.name for one in shared_maps.glob("*/versions.json")} == VERSIONS.keys()
    past, of_versions = past_map(tmp_path, name), {}
    for version in VERSIONS[name]:
        site = published(shared_maps, name, version, tmp_path / f"site-{version}")
        day = date.fromisoformat(days(shared_maps, name)[version - 1])
        past.of_folder(site, day)
        of_versions[day] = site
    for number, (day, site) in enumerate(of_versions.items()):
        target = tmp_path / f"restored-{day}"
        told = restored(past, day, target)
        found, expected = files(target), files(site)
        wholes = list(target.rglob("base.png"))
        assert len(wholes) == len(list(site.rglob("base.png")))
        assert sum(
            "base.png, the image of the whole map, is composed" in line for line in told.lacking
        ) == len(wholes)
        for whole in wholes:
            assert differs_by(whole, site / whole.relative_to(target)) < 1
        assert found.keys() <= expected.keys()
        assert [one for one in expected.keys() - found.keys() if not NEVER_ASKED.fullmatch(one)] == []
        assert [one for one, body in found.items() if expected[one] != body] == []
        assert told.tiles + len(told.files) == len(found)
        assert (told.missing, told.elsewhere) == (0, 0)
        if number == 0:
            assert times(target, found) == times(site, found)


def differs_by(one: Path, other: Path) -> float:
    """The mean difference of two pictures, of 255."""
    with Image.open(one) as found, Image.open(other) as expected:
        assert found.size == expected.size
        # Nobody sees the colours of transparent pixels.
        seen = [on_ground(image.convert("RGBA"), (0, 0, 0)) for image in (found, expected)]
    return max(ImageStat.Stat(ImageChops.difference(*seen)).mean)


def test_zooms_that_are_not_kept_are_composed_and_told(shared_maps: Path, tmp_path: Path) -> None:
    """Of a map of depth 5 zoom -3 has the tiles of two digits. Each is composed once."""
    past = past_map(tmp_path, "alexjj", zooms=(-1, -1))
    site = published(shared_maps, "alexjj", 1, tmp_path / "site")
    past.of_folder(site, date(2016, 10, 6))
    told = restored(past, date(2016, 10, 6), tmp_path / "restored")
    found = files(tmp_path / "restored")
    kept = {name for name in files(site) if re.fullmatch(r"world-lighting(/\d){4}\.png", name)}
    above = [kept]
    for _ in range(3):
        above.append({name.rpartition("/")[0] + ".png" for name in above[-1]})
    assert found.keys() == set().union(*above, {"overviewerConfig.js"})
    assert told.composed == {-1 - number: len(names) for number, names in enumerate(above) if number}
    assert "of layer 'world-lighting' the history has nothing deeper than zoom -1" in told.lacking
    for name in above[1]:
        assert differs_by(tmp_path / "restored" / name, site / name) < 3


def test_nothing_is_overwritten_a_full_disk_leaves_nothing_and_images_that_are_lost_are_counted(
    shared_maps: Path, tmp_path: Path
) -> None:
    past, day = past_map(tmp_path, "alexjj"), date(2016, 10, 6)
    site = published(shared_maps, "alexjj", 1, tmp_path / "site")
    past.of_folder(site, day)
    before = files(tmp_path)
    with pytest.raises(ConfigurationError, match="is there already: nothing was made"):
        restored(past, day, site)
    with pytest.raises(TileHarvestError, match="the disk is full: free space, or write it elsewhere"):
        restored(past, day, tmp_path / "restored", most=2000)
    assert files(tmp_path) == before
    min((tmp_path / "tiles").glob("*/*.png")).unlink()
    (tmp_path / "empty").mkdir()
    told = restored(past, day, tmp_path / "empty")
    assert told.missing >= 1
    assert len(files(tmp_path / "empty")) == told.tiles + len(told.files)


def test_a_day_without_a_configuration_takes_the_next_one_if_that_has_the_same_form(
    shared_maps: Path, tmp_path: Path
) -> None:
    """`antworld` stays as deep as it was, and `alexjj` grows."""
    for name in ("antworld", "alexjj"):
        past = past_map(tmp_path / name, name)
        first, second = (date.fromisoformat(day) for day in days(shared_maps, name)[:2])
        for version, day in ((1, first), (2, second)):
            past.of_folder(published(shared_maps, name, version, tmp_path / f"{name}-{version}"), day)
        forget(past, first)
        if name == "antworld":
            told = restored(past, first, tmp_path / "restored")
            assert f"the configuration is that of {second}: no earlier one is kept" in told.lacking
            found = files(tmp_path / "restored").items()
            tiles = {path: body for path, body in found if path.endswith(".png")}
            assert tiles.items() <= files(tmp_path / "antworld-1").items()
            continue
        with pytest.raises(TileHarvestError, match=f"that is kept, of {second}, has 6 and png: nobody knows"):
            restored(past, first, tmp_path / "again")
        forget(past, second)
        with pytest.raises(TileHarvestError, match=f"no configuration of map 'alexjj' for {first}"):
            restored(past, first, tmp_path / "again")
        assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("path", ["../x", "a/%2e%2e/%2e%2e/x", "/etc/passwd", "a\\..\\x", "a%00x"])
def test_no_address_of_a_site_leads_to_another_place_on_this_computer(path: str) -> None:
    assert _path(Path("site"), URL + path, URL) is None
    assert _path(Path("site"), f"{URL}a/x.png", URL) == Path("site/a/x.png")


def forget(past: Imports, day: date) -> None:
    """As if the harvest of that day had not kept the files of the site."""
    with sqlite3.connect(past.folder / "history.sqlite") as connection:
        connection.execute("DELETE FROM site_files WHERE day = ?", [str(day)])
    connection.close()
