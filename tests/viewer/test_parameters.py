"""What is wrong with a query is said, naming the parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
NEEDED = [(path, name) for path, query in QUESTIONS.items() for name in query]
NUMBERS = [name for name in VIEW if name in AREA]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    world = World(tmp_path_factory.mktemp("world"))
    world.harvest(FIRST, {Tile(0, 1, 1): picture()})
    with serving(world) as running:
        yield running


@pytest.mark.parametrize(("path", "name"), NEEDED)
def test_a_parameter_that_is_missing(client: Client, path: str, name: str) -> None:
    query = {key: value for key, value in QUESTIONS[path].items() if key != name}
    reply = client.get(path, query)
    assert reply.status == 400
    assert reply.error.startswith(f"parameter '{name}' is missing; needed are: ")


@pytest.mark.parametrize("path", QUESTIONS)
@pytest.mark.parametrize("name", ["colour", "Layer", "layer[]", "lay\0er", "é", "_", "x" * 3000])
def test_a_parameter_that_is_not_known(client: Client, path: str, name: str) -> None:
    reply = client.get(path, {**QUESTIONS[path], name: "1"})
    assert reply.status == 400
    assert f"parameter '{name[:80]}" in reply.error
    assert " is not known here; known are: " in reply.error
    assert len(reply.error) < 250


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    "value",
    [
        *("one", "1.0", "1e3", "0x1", "+1", " 1", "1 ", "01", "-0", "--1", "1_000", "١", "1\0", "NaN", "1;2"),
        *map(str, (2**31, -(2**31), 2**63, -(2**63) - 1, 10**30 + 1, "9" * 5000)),
    ],
)
def test_what_is_no_number_within_bounds(client: Client, name: str, value: str) -> None:
    reply = client.get(f"{API}/view", {**VIEW, name: value})
    assert reply.status == 400
    assert reply.error.startswith(f"{name}={value[:80]}")
    assert "cannot be: write a whole number from " in reply.error
    assert len(reply.error) < 250


@pytest.mark.parametrize("zoom", ["0", "-1", "-30"])
@pytest.mark.parametrize("name", [name for name in NUMBERS if name != "zoom"])
def test_an_edge_that_is_no_tile_s_centre(client: Client, name: str, zoom: str) -> None:
    right = {key: str(1 << -int(zoom)) for key in NUMBERS}
    reply = client.get(f"{API}/view", {**VIEW, **right, "zoom": zoom, name: "4"})
    assert reply.status == 400
    assert reply.error.startswith(f"{name}=4 is no tile's centre at zoom {zoom}: write an odd multiple of ")


@pytest.mark.parametrize(
    "day",
    [
        *("yesterday", "2021-2-3", "2021-02-30", "2021-13-01", "20210213", "2021-W06-6", "0000-01-01"),
        *("2021-02-13T00:00", "2021-02-13 ", "2021-02-13\0", "٢٠٢١-٠٢-١٣", "-2021-02-13", "12021-02-13"),
        "2021-02-" + "1" * 5000,
    ],
)
@pytest.mark.parametrize(("path", "name"), [("view", "day"), ("heat", "after"), ("places", "until")])
def test_what_is_no_day(client: Client, path: str, name: str, day: str) -> None:
    reply = client.get(f"{API}/{path}", {**QUESTIONS[f"{API}/{path}"], name: day})
    assert reply.status == 400
    assert reply.error.endswith(" is no day: write it as 2021-02-13")
    assert len(reply.error) < 250


@given(st.dates())
def test_every_day_is_one_as_it_is_written(day: date) -> None:
    assert parse_day(day.isoformat()) == day


@given(st.integers(0, 30), st.integers(-(2**30), 2**30 - 1), st.integers(-(2**30), 2**30 - 1))
def test_every_tile_is_one_by_its_name(levels: int, column: int, row: int) -> None:
    unit = 1 << levels
    x, y = (2 * (column >> levels) + 1) * unit, (2 * (row >> levels) + 1) * unit
    assert parse_tile(str(Tile(-levels, x, y))) == Tile(-levels, x, y)
