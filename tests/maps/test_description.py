"""`maps.toml` and the file of named areas: what is read, and how each mistake is answered."""

import os
import re
from datetime import time
from pathlib import Path

import pytest

from tileharvest.errors import ConfigurationError
from tileharvest.maps.maps_file import add_map, find_map, load_maps, maps_at
from tileharvest.maps.named_areas import LONGEST_NAME, NamedArea, add_area, load_areas, remove_area
from tileharvest.maps.times import Interval
from tileharvest.tiles.grid import Tile, TileRange, Zone

WHOLE = """
[kedama]
url = "https://map.example.net/kedama/index.html#/0/64/0/-3/world"
layers = ["v2_daytime", "v2_nether"]
zooms = [-3, 0]
zones = [{center = [0, -8], width = 56, height = 29, zoom = -3}]
timezone = "Asia/Shanghai"
concurrency = 2
enabled = false
note = "the first"

["second.map"]
url = "http://127.0.0.1:8000"
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        file = tmp_path / "maps.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return write


def test_every_key_is_read(write):
    kedama = load_maps(write(WHOLE))["kedama"]
    assert kedama.layers == ("v2_daytime", "v2_nether")
    assert kedama.zooms == (-3, 0)
    assert kedama.zones == (Zone(center=(0, -8), width=56, height=29, zoom=-3),)
    assert (kedama.timezone, kedama.concurrency) == ("Asia/Shanghai", 2)
    assert (kedama.enabled, kedama.note) == (False, "the first")


def test_only_the_url_must_be_given(write):
    second = load_maps(write(WHOLE))["second.map"]
    assert (second.layers, second.zooms, second.zones) == ((), None, ())
    assert (second.timezone, second.concurrency) == ("UTC", 4)
    assert second.enabled is True


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("https://h/m", "https://h/m/"),
        ("https://h/m/", "https://h/m/"),
        ("https://h", "https://h/"),
        ("https://h:81/a/index.html?x=1#/0/64/0", "https://h:81/a/"),
        ("https://h/a/tiles.json?key=1", "https://h/a/"),
        ("https://h/a/view/index.php", "https://h/a/view/"),
        ("https://h/a/v1.20", "https://h/a/v1.20/"),
        ("https://h:81/a/{z}/{x}/{y}.png", "https://h:81/a/"),
        ("https://{s}.h/tile?z={z}&x={x}&y={y}", "https://a.h/"),
    ],
)
def test_relative_addresses_start_at_the_pages_folder(write, url, page):
    assert load_maps(write(f'[a]\nurl = "{url}"'))["a"].page == page


MISTAKES = {
    "zonez = []": r"'zonez' is not known; did you mean 'zones'\?",
    "xyz = 1": "'xyz' is not known; it can have: url, renderer",
    'viewer = "maps.example"': "'viewer': 'maps.example' is not an address of a page, such as https://",
    'layers = "world"': "'layers': expected `array`.*write for example layers =",
    'layers = ["a", "a"]': "'layers': one of them is there twice; write for",
    'concurrency = "4"': "'concurrency': expected `int`, got `str`",
    "concurrency = 0": "'concurrency': expected `int` >= 1; write for example concurrency = 4",
    "requests_per_second = 0": "'requests_per_second': 0 requests per second cannot be: write one a day",
    "audit = 2": "'audit': expected `float` <= 1.0; write",
    'on = ["never"]': r"'on\[0\]': invalid enum value 'never'; write for example on =",
    'contact = "a\\nb"': "'contact': it has a character that no header of a request may have",
    "zooms = [0, -3]": r"'zooms': 0 is deeper than -3, .* comes first; write for example zooms = \[-3, 0\]",
    "zooms = [-3, 1]": "'zooms': 1 is deeper than 0, the deepest zoom",
    "bounds = [8, 46, 7, 47]": "'bounds': from 8 to 7 degrees east is nothing; write",
    "bounds = {zoom = 5, x = [1, 0], y = [0, 0]}": "'bounds': no tile of the zooms 0 to 24 lies there; write",
    "site_zooms = [-3, 0]": "'site_zooms': the site's own zooms lie between 0 and 24",
    'git = "owner/map"': "'git': 'owner/map' is not an address of .*, such as https://",
    'git = "--upload-pack=x://h"': "'git': '--upload-pack=x://h' is not an address of",
    'timezone = "Europe/Berln"': r"not a time zone; did you mean 'Europe/Berlin'\?",
    'every = "6"': "'every': '6' is not an interval: write for example 1d, 6h or 7d",
    'at = "25:00"': "'at': '25:00' is not a time of the day: write for example 04:00",
    'every = "5h"\nat = "04:00"': "'at': every 5h is at another time each day; leave it out, or",
    'every_min = "1d"': "'every_min': it is of use with every = \"auto\" only; write for example",
    'every = "auto"\nevery_min = "7d"\nevery_max = "1d"': "'every_max': 1d is shorter than",
    "zones = [{center = [0, 0], width = 0, height = 1, zoom = 0}]": r"'zones\[0\]': a zone of 0 x 1 tiles is",
    "zones = [{center = [0], width = 1, height = 1, zoom = 0}]": r"'zones\[0\].center': expected `array` of",
}
ADDRESSES = {
    "concurrency = 2": "'url' is missing; write for example url =",
    "url = 3": "'url': expected `str`, got `int`; write for example url =",
    'url = "map.example.net"': "'url': 'map.example.net' is not an address of a page, such as https://",
    'url = "http://h/{z}/{x}.png"': "'url': a template has {z}, {x} and {y}",
}


@pytest.mark.parametrize(
    ("entry", "message"),
    [*((f'url = "http://h/"\n{entry}', message) for entry, message in MISTAKES.items()), *ADDRESSES.items()],
)
def test_mistake_in_an_entry_is_one_line_with_file_map_and_key(write, entry, message):
    file = write(f"[my-map]\n{entry}\n")
    with pytest.raises(ConfigurationError, match=message) as raised:
        load_maps(file)
    assert str(raised.value).startswith(f"{file}: map 'my-map': key ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('url = "http://h/"', "outside of a map"),
        ("[a]\nurl = \n", r"not valid TOML.*line 2"),
        *(
            (f'["{name}"]\nurl = "http://h/"', "cannot be a map's name")
            for name in ("a b", "../x", "-x", "a/b", "ä")
        ),
    ],
)
def test_a_file_that_is_no_list_of_maps_is_refused(write, text, message):
    with pytest.raises(ConfigurationError, match=message):
        load_maps(write(text))


def test_missing_file_is_refused_with_the_way_to_make_one(tmp_path):
    with pytest.raises(ConfigurationError, match=r"maps.toml: `tileharvest add NAME URL` writes one"):
        load_maps(tmp_path / "maps.toml")


def test_unknown_map_is_refused_with_the_name_that_is_nearest(write):
    with pytest.raises(ConfigurationError, match=r"no map 'kedma'; did you mean 'kedama'\?"):
        find_map(write(WHOLE), "kedma")


@pytest.mark.parametrize(
    ("lines", "segment", "adaptive"),
    [
        ('at = "04:00"', None, None),
        ('every = "6h"\nat = "04:00"', "every:6h", None),
        ('every = "auto"\nat = "04:00"', "day", ("1d", "28d")),
        ('every = "auto"\nevery_min = "6h"\nevery_max = "2w"\nat = "04:00"', "every:6h", ("6h", "2w")),
    ],
)
def test_an_entry_decides_segment_and_time(write, lines, segment, adaptive):
    found = load_maps(write(f'[m]\nurl = "http://h/"\n{lines}\n'))["m"]
    assert (found.segment, found.at_time) == (segment, time(4))
    assert found.adaptive == (adaptive and tuple(map(Interval.parse, adaptive)))


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "maps.toml"
    file.write_text('[one]\nurl = "http://one.example.net/"\n')
    first = load_maps(file)["one"]
    assert load_maps(file)["one"] is first
    stamps = file.stat().st_atime_ns, file.stat().st_mtime_ns
    # As long as it was, and with the time that it had.
    file.write_text('[two]\nurl = "http://two.example.net/"\n')
    os.utime(file, ns=stamps)
    assert list(load_maps(file)) == ["two"]


def test_a_file_of_an_editor_of_windows_is_read_and_keeps_its_bytes(tmp_path: Path) -> None:
    file, written = tmp_path / "maps.toml", b'\xef\xbb\xbf[a]\r\nurl = "http://h/"\r\n'
    file.write_bytes(written)
    add_map(file, "b", {"url": "http://h/"})
    assert list(load_maps(file)) == ["a", "b"]
    assert file.read_bytes().startswith(written)


def test_maps_at_one_host_are_found_without_the_others(tmp_path: Path) -> None:
    file = tmp_path / "maps.toml"
    hosts = ("one.example.net", "two.example.net", "ONE.example.net:8080")
    file.write_text("".join(f'[m{place}]\nurl = "http://{host}/"\n' for place, host in enumerate(hosts)))
    assert [described.name for described in maps_at(file, "one.example.net")] == ["m0", "m2"]
    assert maps_at(file, "three.example.net") == []


# -- regions of canvases and of plain tiles, as people say them

WPLACE = 'url = "https://backend.wplace.live/files/s0/tiles/{x}/{y}.png"'
OTHER = 'url = "https://h/{x}/{y}.png"\ncanvas = {tiles = [40, 20], tile = 1000}'
LINK = '{{link = "https://wplace.live/{}lat=-0.01&lng=0.01&zoom=11", size = {}}}'
PLAIN = 'url = "https://h/{z}/{x}/{y}.png"\nsite_zooms = [4, 9]'


def area(file: Path, entry: str, zone: str) -> TileRange:
    file.write_text(f"[m]\n{entry}\nzones = [{zone}]\n")
    (found,) = load_maps(file)["m"].zones
    return found.tiles()


def between(left: int, top: int, right: int, bottom: int) -> TileRange:
    return TileRange.between(Tile.at(0, left, top), Tile.at(0, right, bottom))


@pytest.mark.parametrize(
    ("entry", "zone", "expected"),
    [
        (OTHER, "{pixels = [1500, 0, 1000, 2000]}", between(1, 0, 2, 1)),
        (OTHER, "{pixels = [39999, 19999, 1, 1]}", between(39, 19, 39, 19)),
        (WPLACE, "{bounds = [-180, 84.9, -179.9, 85.1]}", between(0, 0, 0, 9)),
        # Null Island lies where the four tiles in the middle meet.
        (WPLACE, LINK.format("?", "[2, 3]"), between(1023, 1023, 1024, 1025)),
        (WPLACE, LINK.format("#/?", "[1, 1]"), between(1024, 1024, 1024, 1024)),
        (PLAIN, "{bounds = [13.4, 52.5, 13.41, 52.53]}", between(275, 167, 275, 167)),
        (PLAIN, "{center = [2, -2], width = 2, height = 2, zoom = 0}", between(0, 0, 1, 1)),
    ],
)
def test_a_region_is_the_tiles_showing_it(tmp_path: Path, entry: str, zone: str, expected: TileRange) -> None:
    assert area(tmp_path / "maps.toml", entry, zone) == expected


@pytest.mark.parametrize(
    ("entry", "zone", "message"),
    [
        (OTHER, "{pixels = [50000, 0, 10, 10]}", "outside of the canvas, which has 40 x 20 tiles"),
        (OTHER, "{pixels = [0, 0, 0, 10]}", "a region is {pixels = "),
        (OTHER, "{pixels = [0, 0, 1, 1], width = 2}", "a region is {pixels = "),
        (OTHER, "{bounds = [0, 0, 1, 1]}", "degrees need site_zooms, or a canvas with earth = true"),
        (WPLACE, "{bounds = [1, 0, 0, 1]}", "a region is {pixels = "),
        (WPLACE, "{bounds = [0, 86, 1, 87]}", "outside of the map, which ends at 85.05 degrees"),
        (WPLACE, "{bounds = [nan, 0, 0, inf]}", "a region is {pixels = "),
        (WPLACE, '{link = "https://wplace.live/", size = [1, 1]}', "has no lat= and lng= of a place"),
        (WPLACE, '{link = "https://h/?lat=nan&lng=1", size = [1, 1]}', "has no lat= and lng= of a place"),
        (WPLACE, '{link = "https://h/?lat=89&lng=1", size = [1, 1]}', "has no lat= and lng= of a place on"),
        (PLAIN, "{pixels = [0, 0, 1, 1]}", "pixels are of use with canvas = "),
        (PLAIN.replace("9", "999999"), "{bounds = [0, 0, 1, 1]}", "degrees need site_zooms"),
        (OTHER.replace("40", "0"), "{pixels = [0, 0, 1, 1]}", "a canvas has 1 to 16,777,216 tiles"),
        (OTHER.replace("1000}", "1, earth = true}"), "{pixels = [0, 0, 1, 1]}", "as many columns as rows"),
    ],
)
def test_a_region_that_cannot_be_is_one_line(tmp_path: Path, entry: str, zone: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        area(tmp_path / "maps.toml", entry, zone)
    assert message in str(raised.value)
    assert "map 'm': " in str(raised.value)


def test_a_region_is_written_as_it_was_said(tmp_path: Path) -> None:
    file, zone = tmp_path / "maps.toml", {"link": "https://wplace.live/?lat=0&lng=0", "size": [4, 4]}
    add_map(file, "m", {"url": WPLACE.removeprefix('url = "')[:-1], "zones": [zone]})
    assert 'zones = [{link = "https://wplace.live/?lat=0&lng=0", size = [4, 4]}]' in file.read_text()
    assert len(load_maps(file)["m"].zones[0].tiles()) == 16


# -- named areas


BASE = NamedArea(name="my base", layer="day", corners=((80, -400), (240, -200)))
FARM = NamedArea(name='农场 "two"', layer="day", corners=((0.5, 1), (-3, 4)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "areas.toml"


def test_what_is_added_is_there_in_order_as_a_person_would_write_it(file: Path) -> None:
    assert load_areas(file) == {}
    add_area(file, "world", BASE)
    assert file.read_text(encoding="utf-8").splitlines()[1:] == [
        "",
        '[["world"]]',
        'name = "my base"',
        'layer = "day"',
        "corners = [[80, -400], [240, -200]]",
    ]
    add_area(file, "other.map", BASE)
    add_area(file, "world", FARM)
    assert load_areas(file) == {"world": [BASE, FARM], "other.map": [BASE]}
    assert [one.name for one in file.parent.iterdir()] == ["areas.toml"]
    remove_area(file, "world", "my base")
    remove_area(file, "other.map", "my base")
    assert load_areas(file) == {"world": [FARM]}


GOOD = 'name = "base"\nlayer = "day"\ncorners = [[0, 0], [1, 1]]'
OWN = f"# The places of our server.\n[[world]]\n{GOOD}   # of sand\n# The end.\n"


def test_what_the_owner_wrote_stays_as_it_was(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(OWN)
    add_area(file, "world", BASE)
    added = file.read_text()
    assert added.startswith(OWN)
    with pytest.raises(ConfigurationError, match="nothing was changed: edit it yourself"):
        remove_area(file, "world", "base")
    assert file.read_text() == added
    other = f"world = [{{{GOOD}}}]\n".replace("\n", ", ", 2)
    file.write_text(other)
    with pytest.raises(ConfigurationError, match="nothing was changed: edit it yourself"):
        add_area(file, "world", BASE)
    assert file.read_text() == other


def test_a_name_stands_for_one_area(file: Path) -> None:
    add_area(file, "world", BASE)
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match=re.escape("map 'world' has an area 'my base' already")):
        add_area(file, "world", BASE)
    assert file.read_bytes() == before


def test_what_is_not_there_cannot_be_removed(file: Path) -> None:
    with pytest.raises(ConfigurationError, match="none yet: `tileharvest areas world add AREA X,Z X,Z`"):
        remove_area(file, "world", "my base")
    add_area(file, "world", FARM)
    with pytest.raises(ConfigurationError, match=re.escape("it has '农场 \"two\"'")):
        remove_area(file, "world", "my base")


@pytest.mark.parametrize(
    ("name", "corner", "message"),
    [
        *(
            (name, 1, "is not a name of an area")
            for name in ("", " base", "base ", "a/b", "a\\b", "a\nb", "\x7f", "x" * (LONGEST_NAME + 1))
        ),
        *(("base", value, "farther out than any map") for value in (float("nan"), float("inf"), 1e12)),
    ],
)
def test_an_area_that_cannot_be_is_refused(name: str, corner: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NamedArea(name=name, layer="day", corners=((0, 0), (1, corner)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[world]", "is not valid TOML"),
        ("world = 3", "map 'world': Expected `array`, got `int`"),
        (
            '[[world]]\nname = "x"\nlayer = "d"\ncorners = [[0, 0]]',
            "map 'world': Expected `array` of length 2",
        ),
        ('[["a b"]]\nname = "x"\nlayer = "d"\ncorners = [[0, 0], [1, 1]]', "map 'a b'"),
        (2 * '[[world]]\nname = "x"\nlayer = "d"\ncorners = [[0, 0], [1, 1]]\n', "'x' is there twice"),
        ("\xff", "cannot be read"),
        (
            f"[[world]]\n{GOOD}\n[[world]]\n{GOOD.replace('base', 'a/b')}\n",
            "map 'world': 'a/b' is not a name of an area: write 1 to 60 characters",
        ),
    ],
)
def test_a_file_that_is_wrong_is_one_clear_line(file: Path, text: str, said: str) -> None:
    file.parent.mkdir()
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=re.escape(said)) as refused:
        load_areas(file)
    assert str(refused.value).startswith(str(file))
    assert "\n" not in str(refused.value)
