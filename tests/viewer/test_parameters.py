"""What is wrong with a query is said, naming the parameter; and no question is a mistake of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tests.viewer.asking import of_area, serving
from tests.viewer.building import FIRST, MAP, World, picture
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.viewer.parameters import AREA, parse_day, parse_tile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from tests.viewer.asking import Client

API = f"/api/v1/maps/{MAP}"
VIEW = {name: str(value) for name, value in of_area(TileRange(0, 1, 3, 1, 3), layer="day", day=FIRST).items()}
PERIOD = {"after": "2021-02-13", "until": "2021-02-16"}
AREA_OF_LAYER = {name: value for name, value in VIEW.items() if name != "day"}
QUESTIONS = {
    "/api/v1/maps": {},
    API: {},
    f"{API}/harvests": {},
    f"{API}/view": VIEW,
    f"{API}/changes": AREA_OF_LAYER,
    f"{API}/heat": {**AREA_OF_LAYER, **PERIOD},
    f"{API}/places": {"layer": "day", **PERIOD},
    f"{API}/tiles/0_1_1": {"layer": "day"},
    f"{API}/composed/-1_2_2/2021-02-13.png": {"layer": "day"},
}
NUMBERS = [name for name in VIEW if name in AREA]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    world = World(tmp_path_factory.mktemp("world"))
    world.harvest(FIRST, {Tile(0, 1, 1): picture()})
    with serving(world) as running:
        yield running


@pytest.mark.parametrize("path", QUESTIONS)
def test_a_parameter_that_is_missing_or_not_known(client: Client, path: str) -> None:
    for missing in QUESTIONS[path]:
        reply = client.get(path, {key: value for key, value in QUESTIONS[path].items() if key != missing})
        assert reply.status == 400
        assert reply.error.startswith(f"parameter '{missing}' is missing; needed are: ")
    for more in ("colour", "Layer", "layer[]", "lay\0er", "é", "x" * 3000):
        reply = client.get(path, {**QUESTIONS[path], more: "1"})
        assert reply.status == 400
        assert f"parameter '{more[:80]}" in reply.error
        assert " is not known here; known are: " in reply.error
        assert len(reply.error) < 250


@pytest.mark.parametrize(
    "value", ["one", "1.0", "0x1", "+1", " 1", "01", "-0", "1_000", "١", "1\0", "NaN", str(2**31), "9" * 5000]
)
def test_what_is_no_number_within_bounds(client: Client, value: str) -> None:
    for name in NUMBERS:
        reply = client.get(f"{API}/view", {**VIEW, name: value})
        assert reply.status == 400
        assert reply.error.startswith(f"{name}={value[:80]}")
        assert "cannot be: write a whole number from " in reply.error
        assert len(reply.error) < 250


@pytest.mark.parametrize("zoom", ["0", "-30"])
def test_an_edge_that_is_no_tile_s_centre(client: Client, zoom: str) -> None:
    right = {key: str(1 << -int(zoom)) for key in NUMBERS}
    for name in NUMBERS[1:]:
        reply = client.get(f"{API}/view", {**VIEW, **right, "zoom": zoom, name: "4"})
        assert reply.status == 400
        assert reply.error.startswith(
            f"{name}=4 is not a tile's centre at zoom {zoom}: write an odd multiple of "
        )


@pytest.mark.parametrize(
    "day",
    [
        "yesterday",
        "2021-2-3",
        "2021-02-30",
        "20210213",
        "2021-W06-6",
        "2021-02-13T00:00",
        "٢٠٢١-٠٢-١٣",
        "1" * 5000,
    ],
)
def test_what_is_no_day(client: Client, day: str) -> None:
    for path, name in (("view", "day"), ("heat", "after"), ("places", "until")):
        reply = client.get(f"{API}/{path}", {**QUESTIONS[f"{API}/{path}"], name: day})
        assert reply.status == 400
        assert reply.error.endswith(" is not a day: write it as 2021-02-13")
        assert len(reply.error) < 250


@given(st.dates())
def test_every_day_is_one_as_it_is_written(day: date) -> None:
    assert parse_day(day.isoformat()) == day


@given(st.integers(0, 30), st.integers(-(2**30), 2**30 - 1), st.integers(-(2**30), 2**30 - 1))
def test_every_tile_is_one_by_its_name(levels: int, column: int, row: int) -> None:
    unit = 1 << levels
    x, y = (2 * (column >> levels) + 1) * unit, (2 * (row >> levels) + 1) * unit
    assert parse_tile(str(Tile(-levels, x, y))) == Tile(-levels, x, y)


PLACE: Final = f"/s/{MAP}/{FIRST}/15,15.5,-1"
RECTANGLE: Final = {"west": "0", "north": "0", "east": "100", "south": "100"}
ASKED: Final[dict[str, dict[str, str]]] = {
    **QUESTIONS,
    f"{API}/events": {"layer": "day"},
    f"{API}/events.atom": {"layer": "day", "language": "en"},
    f"{API}/events.ics": {},
    f"{API}/pixels": {},
    f"{API}/before/2021-02-13/0_1_1": {},
    f"{API}/ground/2021-02-13/0_1_1": {},
    "/oembed": {"url": f"http://127.0.0.1{PLACE}", "maxwidth": "400"},
    PLACE: {"language": "en"},
}
"""Questions that are right, or nearly: each is asked with values, names and parts of its path changed."""
VALUES = st.one_of(
    st.sampled_from(["day", MAP, "2021-02-13", "2021-02-13..2021-02-16", "0", "1", "-1", "0_1_1", "1e999"]),
    st.sampled_from(["9" * 5_000, "\u0661", "nan", "0001-01-01", "9999-12-31", "\0", "\ud800", "http://["]),
    st.sampled_from(
        [f"http://127.0.0.1/s/{MAP}/{FIRST}/{place}" for place in ("1,2,99", "1e9,2,0", "1,2", "9" * 500)]
    ),
    st.integers().map(str),
    st.text(max_size=12),
)
NAMES: Final = sorted({name for query in ASKED.values() for name in (*query, *RECTANGLE)})


@fuzzed(500)
@given(
    st.sampled_from(sorted(ASKED)), st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=3)
)
def test_any_query_is_answered_or_refused(client: Client, path: str, changed: dict[str, str]) -> None:
    query = {**ASKED[path], **{name: value for name, value in changed.items() if name in ASKED[path]}}
    more = {name: value for name, value in changed.items() if name not in ASKED[path]}
    for asked in (query, query | more):
        said = urlencode(list(asked.items()), errors="surrogatepass")
        assert client.get(f"{path}?{said}").status < 500, (path, asked)


@fuzzed(300)
@given(st.sampled_from(sorted(ASKED)), st.integers(1, 6), VALUES)
def test_any_path_is_answered_or_refused(client: Client, path: str, place: int, value: str) -> None:
    parts = path.split("/")
    parts[min(place, len(parts) - 1)] = quote(value, safe=",.", errors="surrogatepass")
    query = urlencode(ASKED[path])
    assert client.get(f"{'/'.join(parts)}?{query}").status < 500, parts
