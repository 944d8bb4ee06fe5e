"""Questions to the viewer that nobody would think of: none of them is a mistake of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tests.viewer.asking import serving
from tests.viewer.building import FIRST, MAP, World, picture
from tests.viewer.test_parameters import API, QUESTIONS
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.viewer.asking import Client

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


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    world = World(tmp_path_factory.mktemp("world"))
    world.harvest(FIRST, {Tile(0, 1, 1): picture()})
    with serving(world) as running:
        yield running


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
