"""`maps.toml`: what is read, and how each mistake is answered."""

import os
from datetime import time
from pathlib import Path

import pytest

from tileharvest.errors import ConfigurationError
from tileharvest.maps.maps_file import find_map, load_maps, maps_at
from tileharvest.maps.times import Interval
from tileharvest.tiles.grid import Zone

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
    "bounds = [7, 46, 8, 91]": "'bounds': from 46 to 91 degrees north is nothing; write",
    "bounds = {zoom = 5, x = [1, 0], y = [0, 0]}": "'bounds': no tile of the zooms 0 to 24 lies there; write",
    "site_zooms = [-3, 0]": "'site_zooms': the site's own zooms lie between 0 and 24",
    "site_zooms = [5, 4]": "'site_zooms': .* the coarsest comes first; write",
    'git = "owner/map"': "'git': 'owner/map' is not an address of .*, such as https://",
    'git = "--upload-pack=x://h"': "'git': '--upload-pack=x://h' is not an address of",
    'timezone = "Europe/Berln"': r"not a time zone; did you mean 'Europe/Berlin'\?",
    'timezone = "?"': "not a time zone; write for example timezone =",
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


def test_key_outside_of_a_map_is_refused(write):
    with pytest.raises(ConfigurationError, match="outside of a map"):
        load_maps(write('url = "http://h/"'))


@pytest.mark.parametrize("name", ["a b", "../x", "-x", "a/b", "ä"])
def test_name_that_cannot_name_files_is_refused(write, name):
    with pytest.raises(ConfigurationError, match="cannot be a map's name"):
        load_maps(write(f'["{name}"]\nurl = "http://h/"'))


def test_file_that_is_no_toml_is_refused_with_the_line(write):
    with pytest.raises(ConfigurationError, match=r"not valid TOML.*line 2"):
        load_maps(write("[a]\nurl = \n"))


def test_missing_file_is_refused_with_the_way_to_make_one(tmp_path):
    with pytest.raises(ConfigurationError, match="tileharvest add NAME URL"):
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


def test_maps_at_one_host_are_found_without_the_others(tmp_path: Path) -> None:
    file = tmp_path / "maps.toml"
    hosts = ("one.example.net", "two.example.net", "ONE.example.net:8080")
    file.write_text("".join(f'[m{place}]\nurl = "http://{host}/"\n' for place, host in enumerate(hosts)))
    assert [described.name for described in maps_at(file, "one.example.net")] == ["m0", "m2"]
    assert maps_at(file, "three.example.net") == []
