"""Trees restored of a history, beside the published files of every shared map."""

import re
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any, Final

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


def imported(
    shared_maps: Path, name: str, versions: tuple[int, ...], folder: Path, **keys: Any
) -> tuple[Imports, dict[date, Path]]:
    """A map whose published versions are imported, and what was published on each day."""
    put_empty_history(folder / "history.sqlite")
    past, sites = Imports(folder, MapDescription(name=name, url=URL, **keys)), {}
    for version in versions:
        day = date.fromisoformat(days(shared_maps, name)[version - 1])
        sites[day] = published(shared_maps, name, version, folder / f"site-{version}")
        past.of_folder(sites[day], day)
    return past, sites


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


@pytest.mark.parametrize("name", VERSIONS)
def test_every_map_is_restored_as_it_was_published(name: str, shared_maps: Path, tmp_path: Path) -> None:
    assert {one.parent.name for one in shared_maps.glob("*/versions.json")} == VERSIONS.keys()
    past, sites = imported(shared_maps, name, VERSIONS[name], tmp_path)
    for number, (day, site) in enumerate(sites.items()):
        target = tmp_path / f"restored-{day}"
        told = restored(past, day, target)
        found, expected = files(target), files(site)
        wholes = list(target.rglob("base.png"))
        assert len(wholes) == len(list(site.rglob("base.png")))
        words = "base.png, the image of the whole map, is composed"
        assert sum(words in line for line in told.lacking) == len(wholes)
        for whole in wholes:
            assert differs_by(whole, site / whole.relative_to(target)) < 1
        assert found.keys() <= expected.keys()
        assert [one for one in expected.keys() - found.keys() if not NEVER_ASKED.fullmatch(one)] == []
        assert [one for one, body in found.items() if expected[one] != body] == []
        assert told.tiles + len(told.files) == len(found)
        assert (told.missing, told.elsewhere) == (0, 0)
        if number == 0:
            times = [[int((folder / one).stat().st_mtime) for one in found] for folder in (target, site)]
            assert times[0] == times[1]


def differs_by(one: Path, other: Path) -> float:
    """The mean difference of two pictures, of 255."""
    with Image.open(one) as found, Image.open(other) as expected:
        assert found.size == expected.size
        # Nobody sees the colours of transparent pixels.
        seen = [on_ground(image.convert("RGBA"), (0, 0, 0)) for image in (found, expected)]
    return max(ImageStat.Stat(ImageChops.difference(*seen)).mean)


def test_zooms_that_are_not_kept_are_composed_and_told(shared_maps: Path, tmp_path: Path) -> None:
    """Of a map of depth 5 zoom -3 has the tiles of two digits. Each is composed once."""
    past, sites = imported(shared_maps, "alexjj", (1,), tmp_path, zooms=(-1, -1))
    ((day, site),) = sites.items()
    told = restored(past, day, tmp_path / "restored")
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
    past, sites = imported(shared_maps, "alexjj", (1,), tmp_path)
    ((day, site),) = sites.items()
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


def forget(past: Imports, day: date) -> None:
    """As if the harvest of that day had not kept the files of the site."""
    with closing(sqlite3.connect(past.folder / "history.sqlite")) as connection, connection:
        connection.execute("DELETE FROM site_files WHERE day = ?", [str(day)])


def test_a_day_without_a_configuration_takes_the_next_one_if_that_has_the_same_form(
    shared_maps: Path, tmp_path: Path
) -> None:
    """`antworld` stays as deep as it was, and `alexjj` grows."""
    past, sites = imported(shared_maps, "antworld", (1, 2), tmp_path / "antworld")
    first, second = sites
    forget(past, first)
    told = restored(past, first, tmp_path / "restored")
    assert f"the configuration is that of {second}: no earlier one is kept" in told.lacking
    found = {name: body for name, body in files(tmp_path / "restored").items() if name.endswith(".png")}
    assert found.items() <= files(sites[first]).items()
    past, sites = imported(shared_maps, "alexjj", (1, 2), tmp_path / "alexjj")
    first, second = sites
    for day, words in (
        (first, f"that is kept, of {second}, has 6 and png: nobody knows"),
        (second, f"no configuration of map 'alexjj' for {first}"),
    ):
        forget(past, day)
        with pytest.raises(TileHarvestError, match=words):
            restored(past, first, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("path", ["../x", "a/%2e%2e/%2e%2e/x", "/etc/passwd", "a\\..\\x", "a%00x"])
def test_no_address_of_a_site_leads_to_another_place_on_this_computer(path: str) -> None:
    assert _path(Path("site"), URL + path, URL) is None
    assert _path(Path("site"), f"{URL}a/x.png", URL) == Path("site/a/x.png")
