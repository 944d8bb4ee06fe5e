"""What is wrong with a query is said, naming the parameter; and no question is a mistake of the program."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tests.viewer.asking import Client, of_area, serving
from tests.viewer.building import FIRST, MAP, World, picture
from tileharvest.tiles.grid import Tile, TileRange

API = f"/api/v1/maps/{MAP}"
VIEW = {name: str(value) for name, value in of_area(TileRange(0, 1, 3, 1, 3), layer="day", day=FIRST).items()}
PERIOD = {"after": "2021-02-13", "until": "2021-02-16"}
AREA_OF_LAYER = {name: value for name, value in VIEW.items() if name != "day"}
QUESTIONS = {
    "/api/v1/maps": {},
    f"{API}/view": VIEW,
    f"{API}/changes": AREA_OF_LAYER,
    f"{API}/heat": {**AREA_OF_LAYER, **PERIOD},
    f"{API}/places": {"layer": "day", **PERIOD},
    f"{API}/tiles/0_1_1": {"layer": "day"},
    f"{API}/composed/-1_2_2/2021-02-13.png": {"layer": "day"},
}


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
    for more in ("colour", "lay\0er", "x" * 3000):
        reply = client.get(path, {**QUESTIONS[path], more: "1"})
        assert reply.status == 400
        assert f"parameter '{more[:80]}" in reply.error
        assert " is not known here; known are: " in reply.error
        assert len(reply.error) < 250


EVENTS = {"layer": "day", "from": "2021-02-13", "to": "2021-02-16"}
PIXELS = {"layer": "day", "ground": "0,0,2,2"}


@pytest.mark.parametrize(
    ("path", "query", "line"),
    [
        *(
            (f"{API}/view", {**VIEW, "x_to": wrong}, "cannot be: write a whole number from ")
            for wrong in ("one", "1.0", "+1", "01", "1_000", "\u0661", "1\0", str(2**31), "9" * 5000)
        ),
        (f"{API}/view", {**VIEW, "y_from": "4"}, "y_from=4 is not a tile's centre at zoom 0: write an odd"),
        (f"{API}/view", {**VIEW, "x_from": "5"}, "x_from=5 is greater than x_to=3"),
        *(
            (f"{API}/view", {**VIEW, "day": wrong}, " is not a day: write it as 2021-02-13")
            for wrong in ("yesterday", "2021-2-3", "2021-02-30", "20210213", "2021-02-13T00:00", "1" * 5000)
        ),
        (
            f"{API}/places",
            {"layer": "day", **PERIOD, "until": "2021-02-01"},
            "until=2021-02-01 is before after=",
        ),
        (f"{API}/places", {"layer": "day", **PERIOD, "limit": "1001"}, "write a whole number from 1 to 1000"),
        (f"{API}/events", {**EVENTS, "to": "2021-02-01"}, "to=2021-02-01 is before from=2021-02-13"),
        (
            f"{API}/events",
            {**EVENTS, "from": "2020-01-01"},
            "a period has 366 days at most, and this one 413",
        ),
        (f"{API}/events", {**EVENTS, "limit": "0"}, "limit=0 cannot be"),
        (f"{API}/events", {**EVENTS, "ground": "1,2,3"}, "ground=1,2,3 cannot be: write four numbers, west,"),
        (f"{API}/events", {**EVENTS, "ground": "4,0,0,4"}, "ground=4,0,0,4 cannot be: a rectangle is empty"),
        (f"{API}/events.atom", {"language": "de"}, "language=de is not known; known are: en, zh"),
        (f"{API}/pixels", {**PIXELS, "ground": "0,0,0.5,2"}, "no story can be told: it has 2 x 8 pixels"),
        (f"{API}/pixels", {**PIXELS, "ground": "0,0,20,20"}, "no story can be told: it lies on 100 tiles"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_one_line(
    client: Client, path: str, query: dict[str, str], line: str
) -> None:
    reply = client.get(path, query)
    assert reply.status == 400
    assert line in reply.error
    assert len(reply.error) < 250


PLACE: Final = f"/s/{MAP}/{FIRST}/15,15.5,-1"
ASKED: Final[dict[str, dict[str, str]]] = {
    **QUESTIONS,
    f"{API}/events": {"layer": "day"},
    f"{API}/events.atom": {"layer": "day", "language": "en"},
    f"{API}/pixels": {},
    f"{API}/before/2021-02-13/0_1_1": {},
    f"{API}/ground/2021-02-13/0_1_1": {},
    PLACE: {"language": "en"},
}
"""Questions that are right, or nearly: each is asked with values, names and parts of its path changed."""
VALUES = st.one_of(
    st.sampled_from(["day", MAP, "2021-02-13", "2021-02-13..2021-02-16", "0", "1", "-1", "0_1_1", "1e999"]),
    st.sampled_from(["9" * 5_000, "\u0661", "nan", "0001-01-01", "9999-12-31", "\0", "\ud800"]),
    st.integers().map(str),
    st.text(max_size=12),
)
NAMES: Final = sorted({name for query in ASKED.values() for name in (*query, "ground")})


@fuzzed(500)
@given(st.sampled_from(sorted(ASKED)), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3), VALUES)
def test_any_question_is_answered_or_refused(
    client: Client, path: str, changed: dict[str, str], part: str
) -> None:
    asked = {**ASKED[path], **changed}
    known = {name: value for name, value in asked.items() if name in ASKED[path]}
    odd = f"{path.rpartition('/')[0]}/{quote(part, safe=',.', errors='surrogatepass')}"
    for where, query in ((path, asked), (path, known), (odd, ASKED[path])):
        said = urlencode(list(query.items()), errors="surrogatepass")
        assert client.get(f"{where}?{said}").status < 500, (where, query)
