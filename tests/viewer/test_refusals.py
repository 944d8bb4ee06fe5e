"""What is wrong with a question is said in one line, with what there is; and no question is a mistake of the
program."""

from hashlib import sha1
from typing import Final
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tests.viewer.asking import Client, of_area
from tests.viewer.building import FIRST, MAP, picture
from tileharvest.tiles.grid import TileRange

API: Final = f"/api/v1/maps/{MAP}"
NAME: Final = sha1(picture()).hexdigest()
LAYER: Final = {"layer": "day"}
VIEW: Final[dict[str, object]] = {**of_area(TileRange(0, 1, 3, 1, 3), **LAYER), "day": FIRST}
PERIOD: Final = {**LAYER, "after": "2021-02-13", "until": "2021-02-16"}
EVENTS: Final = {**LAYER, "from": "2021-02-13", "to": "2021-02-16"}
PLACE: Final = f"/s/{MAP}/{FIRST}"


@pytest.mark.parametrize(
    ("path", "query", "line"),
    [
        (
            "view",
            {**LAYER, "day": FIRST},
            "parameter 'zoom' is missing; needed are: layer, day, zoom, x_from,",
        ),
        *(
            ("view", {**VIEW, more: "1"}, f"parameter '{said}' is not known here; known are: ")
            for more, said in (("colour", "colour"), ("lay\0er", "lay\\x00er"), ("x" * 300, f"{'x' * 77}..."))
        ),
        ("changes", VIEW, "parameter 'day' is not known here; known are: layer, zoom, x_from, x_to, y_from"),
        ("view?layer=a&layer=b", {}, "parameter 'layer' is given twice"),
        ("view", {**VIEW, "layer": ""}, "parameter 'layer' is empty"),
        *(
            ("view", {**VIEW, "x_to": wrong}, "cannot be: write a whole number from ")
            for wrong in ("one", "1.0", "+1", "01", "1_000", "\u0661", "1\0", str(2**31), "9" * 5000)
        ),
        ("view", {**VIEW, "y_from": "4"}, "y_from=4 is not a tile's centre at zoom 0: write an odd"),
        ("view", {**VIEW, "x_from": "5"}, "x_from=5 is greater than x_to=3"),
        *(
            ("view", {**VIEW, "day": wrong}, " is not a day: write it as 2021-02-13")
            for wrong in ("yesterday", "2021-2-3", "2021-02-30", "20210213", "2021-02-13T00:00", "1" * 5000)
        ),
        (
            "heat",
            {**PERIOD, **of_area(TileRange(0, 1, 31, 1, 33))},
            "and this one has 272: ask for",
        ),
        ("places", {**PERIOD, "until": "2021-02-01"}, "until=2021-02-01 is before after="),
        ("places", {**PERIOD, "limit": "1001"}, "write a whole number from 1 to 1000"),
        ("events", {**EVENTS, "from": "2020-01-01"}, "a period has 366 days at most, and this one 413"),
        ("events", {**EVENTS, "ground": "1,2,3"}, "ground=1,2,3 cannot be: write four numbers, west,"),
        ("events", {**EVENTS, "ground": "4,0,0,4"}, "ground=4,0,0,4 cannot be: a rectangle is empty"),
        ("events.atom", {"language": "de"}, "language=de is not known; known are: en, zh"),
        ("pixels", {**LAYER, "ground": "0,0,1.75,7.5"}, "it has 7 x 30 pixels, and must have 8 along"),
        ("pixels", {**LAYER, "ground": "0,0,8,8.5"}, "it lies on 20 tiles, and 16 are the most"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_one_line(
    client: Client, path: str, query: dict[str, object], line: str
) -> None:
    reply = client.get(f"{API}/{path}", query)
    assert reply.status == 400
    assert line in reply.error
    assert len(reply.error) < 250


@pytest.mark.parametrize(
    ("path", "line"),
    [
        *((f"/api/v1/maps/{name}", f"; there are: '{MAP}'") for name in ("ant", "WORLD", "world%00", "%ff")),
        (f"{API}/tiles/0_1_1?layer=moon", f"map '{MAP}' has no layer 'moon'; it has: 'day', 'night'"),
        *(
            (f"{API}/tiles/{name}?layer=day", "")
            for name in ("1_1_1", "0_2_1", "0_1", "0_+1_1", "-0_1_1", "0_%D9%A1_1", f"0_{10**30 + 1}_1")
        ),
        *(
            (f"/tiles/{name}", "is not an image's name")
            for name in (
                NAME,
                f"{NAME}.gif",
                f"{NAME}.PNG",
                f"{NAME}0.png",
                f"{NAME.upper()}.png",
                "a" * 6000,
            )
        ),
        *((f"/tiles/{name}", "") for name in (f"..%2f{NAME}.png", "..%5chistory.sqlite", "%2Fetc%2Fpasswd")),
        *(
            (path, "there is nothing at ")
            for path in ("/index.html", f"{API}/", "//", "/%ff", f"/{'a' * 8000}")
        ),
        *(
            (f"/page/{name}", "the page has no file ")
            for name in ("..%2fserver.py", "%2fetc%2fpasswd", "..\\server.py", "leaflet", "nothing")
        ),
        (f"/s/nowhere/{FIRST}/1,2,0", "there is no map 'nowhere'"),
        (f"{PLACE}/1,2,0?layer=cave", "has no layer 'cave'"),
        (f"/s/{MAP}/1980-01-01/1,2,0", f"goes from {FIRST} to {FIRST}, without 1980-01-01"),
        (f"/s/{MAP}/{FIRST}..2099-01-01/1,2,0", f"goes from {FIRST} to {FIRST}"),
        (f"/s/{MAP}/2021-02-16..{FIRST}/1,2,0", "is neither a day nor two"),
        (f"/s/{MAP}/yesterday/1,2,0", "is neither a day nor two"),
        (f"{PLACE}/1,2", "'1,2' is not a place: write X,Z,ZOOM"),
        (f"{PLACE}/1,2,3", "is not a place"),
        (PLACE, "is written s/MAP/DAY/X,Z,ZOOM"),
        (f"{PLACE}/1,2,-30.jpg", "there is no picture"),
    ],
)
def test_what_is_not_there_is_not_found(client: Client, path: str, line: str) -> None:
    reply = client.get(path)
    assert reply.status == 404
    assert line in reply.error
    assert len(reply.error) < 250


ASKED: Final[dict[str, dict[str, object]]] = {
    "/api/v1/maps": {},
    f"{API}/view": VIEW,
    f"{API}/changes": {name: value for name, value in VIEW.items() if name != "day"},
    f"{API}/heat": {**{name: value for name, value in VIEW.items() if name != "day"}, **PERIOD},
    f"{API}/places": PERIOD,
    f"{API}/tiles/0_1_1": LAYER,
    f"{API}/composed/-1_2_2/2021-02-13.png": LAYER,
    f"{API}/events": EVENTS,
    f"{API}/events.atom": {**LAYER, "language": "en"},
    f"{API}/pixels": {},
    f"{API}/before/2021-02-13/0_1_1": {},
    f"{API}/ground/2021-02-13/0_1_1": {},
    f"{PLACE}/15,15.5,-1": {"language": "en"},
}
"""Questions that are right, or nearly: each is asked with values, names and parts of its path changed."""
VALUES: Final = st.one_of(
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
