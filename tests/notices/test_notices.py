"""Notices: what is said of a harvest, when, to whom, and what of an address may be seen."""

import io
import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy.settings import Settings

from tests.notices.receiver import Posted, Receiver, receiver
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    GREEN,
    MAP,
    NIGHT_LAYER,
    SECOND,
    THIRD,
    World,
    picture,
    square,
)
from tileharvest.errors import (
    AlreadyHarvestedError,
    BudgetError,
    ConfigurationError,
    SiteError,
    TileHarvestError,
)
from tileharvest.history.costs import Cost
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.maps.description import MapDescription
from tileharvest.maps.named_areas import NamedArea, add_area
from tileharvest.notices.delivery import (
    Target,
    Wishes,
    deliver,
    notice_occasions,
    parse_target,
    parse_targets,
    wishes_for,
)
from tileharvest.notices.message import Message, Report, compose, is_wanted
from tileharvest.notices.notice import ChangedPlace, changed_places, covering, send_notice, view_around
from tileharvest.renderers.xyz import mercator, page_place
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import Ground, Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid

# Apprise loads a module that Python 3.13 has no more, where there is one.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

DAY = date(2026, 11, 21)
FOUND = {Outcome.IGNORED: 1035, Outcome.UPDATED: 12, Outcome.GONE: 5, Outcome.NOTHING: 13}
QUIET = {Outcome.IGNORED: 35, Outcome.NOT_MODIFIED: 2, Outcome.NOTHING: 13}
SOME_FAILED = {**QUIET, Outcome.FAILED: 1}
UNREACHABLE = SiteError("http://example.net/ cannot be reached <timeout>; try again later")
BUDGET = BudgetError("the budget of 90 requests is spent; run again", "budget: 90 requests")
VIEWER: Final = "http://viewer.example.net/"


def report(found: dict[Outcome, int], error: TileHarvestError | None = None) -> Report:
    return Report("demo", DAY, found, error, Cost(1092, 2_700_000, 0, 3_300_000))


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (report(FOUND), "17 tiles changed"),
        (report({Outcome.REPLACED: 1}), "1 tile changed"),
        (report(QUIET), "nothing changed"),
        (report(SOME_FAILED), "nothing changed, 1 tile failed"),
        (report({}, UNREACHABLE), "the harvest failed"),
        (report({Outcome.ADDED: 1200}, BUDGET), "ended by its budget, 1,200 tiles changed"),
    ],
)
def test_the_title_says_the_most_important(ended: Report, said: str) -> None:
    assert compose(ended).title == f"demo, 2026-11-21: {said}"


def test_the_text_reads_well_without_markup() -> None:
    """A place on the earth is named by degrees, too."""
    view = TileRange(0, 1, 7, 1, 7)
    place = ChangedPlace("world`s\nday", 12, (view,), 272, -208, -1, tile=Tile(-2, 4, 4))
    town = ChangedPlace("zoom10", 1, (view,), 8.1125, -54.3, -1, "", Tile(0, 1, 1), (47.372, 8.6125))
    assert compose(report(FOUND), [place, town], VIEWER).body == (
        "    outcome  tiles\n"
        "    404         13\n"
        "    ign      1,035\n"
        "    upd         12\n"
        "    gone         5\n"
        "\n"
        "1,092 requests, 2.7 MB received, 3.3 MB spared by ETags.\n"
        "\n"
        "Where most changed:\n"
        "\n"
        "- -2_4_4 of `world's\\nday`: 12 tiles\n"
        "  <http://viewer.example.net/#map=demo&layer=world%60s%0Aday&day=2026-11-21&x=272&z=-208&zoom=-1>\n"
        "- 0_1_1 of `zoom10` at 47.37200\u00b0, 8.61250\u00b0: 1 tile\n"
        "  <http://viewer.example.net/#map=demo&layer=zoom10&day=2026-11-21&x=8.1125&z=-54.3&zoom=-1>\n"
    )


def test_an_error_comes_first_and_no_service_takes_it_for_markup() -> None:
    lines = compose(report({}, SiteError(f"{UNREACHABLE} {'word ' * 30}"))).body.splitlines()
    assert lines[0].startswith("    http://example.net/ cannot be reached <timeout>;")
    assert all(line.startswith("    ") and len(line) <= 80 for line in lines[: lines.index("")])


ENDS = {
    "changed": report(FOUND),
    "quiet": report(QUIET),
    "some failed": report(SOME_FAILED),
    "unreachable": report({}, UNREACHABLE),
    "budget": report(QUIET, BUDGET),
    "already": report({}, AlreadyHarvestedError("already")),
    "spent before": report({}, BudgetError("spent", "daily budget: 90 requests")),
}


@pytest.mark.parametrize(
    ("occasions", "told"),
    [
        ((), set()),
        (("change",), {"changed"}),
        (("change", "failure"), {"changed", "some failed", "unreachable", "budget"}),
        (("always",), {"changed", "quiet", "some failed", "unreachable", "budget"}),
    ],
)
def test_who_wants_what_is_told_that_and_never_of_a_harvest_that_was_done(
    occasions: tuple[str, ...], told: set[str]
) -> None:
    assert {name for name, ended in ENDS.items() if is_wanted(ended, occasions)} == told


# ------------------------------------------------------------------------------ addresses and delivery

SECRET = "s3cretT0ken"
LONG = 100.0
"""Seconds that are enough on any computer."""
MESSAGE = Message("demo: 17 tiles changed", "    upd  17\n\n- **one** <http://example.net/#a=b&c=d>\n", False)


@pytest.fixture
def received() -> Iterator[Receiver]:
    with receiver() as listening:
        yield listening


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """All that reaches a handler of the root logger, as Scrapy's is. pytest's own handler also gets what does
    not reach that."""
    stream, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(stream), root.level
    root.addHandler(handler)
    root.setLevel(1)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def test_those_who_do_not_take_it_are_named_and_no_secret_is(
    received: Receiver, logged: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    targets = [
        Target(received.address(f"/500/{SECRET}", f"me:{SECRET}")),
        Target(f"json://me:{SECRET}@127.0.0.1:{nobody}/{SECRET}"),
        Target(f"nosuchservice://{SECRET}"),
        Target(SECRET),
        Target(received.address(f"/{SECRET}")),
    ]
    missed = deliver(targets, MESSAGE, None, LONG)
    unknown = "Apprise does not understand the address"
    assert missed == [
        "json://... (it answered 500)",
        "json://... (it does not answer)",
        f"nosuchservice://... ({unknown})",
        f"an address without a scheme ({unknown})",
    ]
    assert len(received.posted) == 2
    logging.getLogger("tileharvest").warning("this is logged")
    assert "this is logged" in logged.getvalue()
    said = "".join(capfd.readouterr()) + logged.getvalue() + repr(missed) + repr(targets)
    assert SECRET not in said


def test_what_hangs_does_not_hold_up_the_end_of_the_process(received: Receiver) -> None:
    before = set(threading.enumerate())
    deliver([Target(received.address("/hang"))], MESSAGE, None, 0.2)
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert "notice" in {thread.name for thread in left}
    assert all(thread.daemon for thread in left), "Python waits for the others"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
@example("a:b@c/d?e#f%20g é")
def test_a_password_may_hold_any_sign(password: str) -> None:
    target = parse_target("mailto://me:${PASSWORD}@mail.example.net:25/x?to=y", {"PASSWORD": password})
    parts = urlsplit(target.url)
    assert unquote(parts.password or "") == password
    assert (parts.hostname, parts.port, parts.path, parts.query) == ("mail.example.net", 25, "/x", "to=y")


def test_a_secret_may_stand_in_a_file_or_be_an_address_and_a_missing_one_is_named(tmp_path: Path) -> None:
    file, empty = tmp_path / "token", tmp_path / "empty"
    file.write_text("12:ab\n")
    empty.touch()
    texts = [
        f"tgram://${{file:{file}}}/1",
        " ${WHERE} ",
        *("json://${NAME}", "json://${EMPTY}", f"json://${{file:{empty}}}", "json://${file:/nowhere}"),
    ]
    address = "json://me:pass%20word@example.net/?a=b"
    targets, missing = parse_targets(texts, {"EMPTY": "", "WHERE": address})
    assert targets == [Target("tgram://12%3Aab/1"), Target(address)]
    assert missing == [
        "the environment variable NAME is not set",
        "the environment variable EMPTY is not set",
        f"the file {empty} is empty",
        "the file /nowhere cannot be read (No such file or directory)",
    ]


# ------------------------------------------------------------------------------------ areas and places

# A tile is 16 x 16 blocks.
PROJECTION: Final = Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0))
LAYER: Final = Layer(DAY_LAYER, Pyramid(10), "png", tile_size=(8, 8), projection=PROJECTION)
BASE: Final = NamedArea(name="my base", layer=DAY_LAYER, corners=((0, 0), (31, 31)))
FARM: Final = NamedArea(name="farm", layer=DAY_LAYER, corners=((64, 0), (127, 63)))
LOST: Final = NamedArea(name="lost", layer="cave", corners=((0, 0), (31, 31)))
BOTH: Final = (BASE, FARM)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The base changes on the second day, and what lies beside it on the third."""
    world = World(tmp_path_factory.mktemp("world"))
    tiles = square(0, 8, bottom=-8)
    world.harvest(FIRST, dict.fromkeys(tiles, picture()), described=LAYER)
    upper_left = max(tiles, key=lambda tile: (tile.y - tile.x, tile))
    world.harvest(SECOND, {upper_left: picture(BLUE)}, described=LAYER)
    world.harvest(THIRD, {tiles[0]: picture(BLUE)}, described=LAYER)
    return world


@pytest.fixture
def told(received: Receiver, world: World) -> Callable[..., list[Posted]]:
    """A function that sends the notice of a harvest of that day, and returns the messages that came."""

    def told(
        day: date, error: TileHarvestError | None = None, *, url: str = "", **wishes: Any
    ) -> list[Posted]:
        wished = Wishes((Target(received.address()),), **{"occasions": ("change", "failure"), **wishes})
        address = url or f"sqlite:///{world.database}"
        ended = Report(MAP, day, {Outcome.UPDATED: 1}, error)
        opening = (lambda: History.open_read_only(address), lambda: world.store)
        assert send_notice(ended, str(day), wished, *opening, 20) == []
        return received.posted

    return told


def test_an_area_that_has_changed_is_named_with_a_link_and_a_picture(
    told: Callable[..., list[Posted]],
) -> None:
    (message,) = told(SECOND, areas=BOTH, viewer=VIEWER)
    assert message.title == f"{MAP}, {SECOND}: my base has changed, 1 tile changed"
    link = f"<{VIEWER}#map={MAP}&layer={DAY_LAYER}&day={SECOND}&x=15.5&z=15.5&zoom=0>"
    assert f"Areas that changed:\n\n- `my base`: 1 tile\n  {link}" in message.body
    assert "Where most changed" not in message.body
    assert message.picture.width > 0


@pytest.mark.parametrize(
    ("day", "wishes", "titles"),
    [
        (THIRD, {"areas": BOTH}, []),
        (FIRST, {"areas": BOTH}, ["my base has changed, farm has changed, 1 tile changed"]),
        (THIRD, {"areas": (BASE,), "error": SiteError("no")}, ["the harvest failed, 1 tile changed"]),
        (THIRD, {"areas": (BASE,), "occasions": ("always",)}, ["1 tile changed"]),
        (SECOND, {"areas": (LOST,)}, []),
    ],
    ids=["a change elsewhere", "several areas", "a failure", "always", "an area of a layer that is gone"],
)
def test_a_change_elsewhere_is_no_occasion_by_itself(
    told: Callable[..., list[Posted]], day: date, wishes: dict[str, Any], titles: list[str]
) -> None:
    assert [one.title.partition(": ")[2] for one in told(day, **wishes)] == titles


def test_a_change_is_told_where_the_history_cannot_say_whether_it_lies_in_an_area(
    told: Callable[..., list[Posted]], tmp_path: Path
) -> None:
    (tmp_path / "history.sqlite").write_bytes(b"no database")
    (message,) = told(THIRD, url=f"sqlite:///{tmp_path / 'history.sqlite'}", areas=BOTH)
    assert message.title == f"{MAP}, {THIRD}: 1 tile changed"
    assert "it is not known whether a watched area has changed" in message.body


def test_the_areas_of_an_entry_are_those_of_the_owners_file_and_an_unknown_occasion_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for area in BOTH:
        add_area(tmp_path / "areas.toml", MAP, area)
    settings = Settings({"TILEHARVEST_DATA": tmp_path, "NOTIFY": [], "NOTIFY_ON": [], "VIEWER_URL": ""})

    def watched(*areas: str) -> tuple[NamedArea, ...] | None:
        entry = MapDescription(name=MAP, url="https://map.example.net/", notify=("json://x/",), areas=areas)
        found = wishes_for(settings, entry)
        assert found is not None
        return found.areas

    assert (watched(), watched("farm"), caplog.messages) == (None, (FARM,), [])
    assert watched("farm", "barn") == (FARM,)
    (line,) = caplog.messages
    missing = f"map '{MAP}' has no area 'barn'; it has 'my base', 'farm'"
    assert line == f"an area to be watched is left out: {missing}; this goes on without"
    moon, entry = Settings({"NOTIFY_ON": "change,full moon"}), MapDescription(name="m", url="http://a.net/")
    with pytest.raises(ConfigurationError, match="NOTIFY_ON 'full moon' is none of: "):
        notice_occasions(moon, entry)


def places_of(world: World, limit: int = 5, days: int = 0) -> list[ChangedPlace]:
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        return changed_places(history, map_outline(history, MAP), SECOND + timedelta(days), limit)


def test_the_places_are_the_blocks_that_changed_most(tmp_path: Path) -> None:
    """The world has whole blocks and parts of some on both sides of both axes."""
    random, world, side = Random(7), World(tmp_path), 40
    ground = square(0, side, left=-side // 2, bottom=-side // 2)
    changed = [tile for tile in ground if random.random() < (0.02 if tile.x < 0 else 0.3) and tile.x < 30]
    world.harvest(FIRST, dict.fromkeys(ground, picture()))
    world.harvest(SECOND, dict.fromkeys(changed, picture(GREEN)), finished=False)
    world.harvest(SECOND, dict.fromkeys(changed[:9], picture()), layer=NIGHT_LAYER)
    places = places_of(world, limit=3)
    by_block = Counter(tile.ancestor(3) for tile in changed)
    assert [place.count for place in places] == sorted((place.count for place in places), reverse=True)
    assert places[0].count == max(by_block.values())
    for place in places:
        assert place.tile is not None
        assert by_block[place.tile.ancestor(place.tile.zoom + 3)] == place.count
    assert {place.layer for place in places} == {DAY_LAYER}
    assert places_of(world, days=1) == []


def test_places_of_plain_tiles_are_degrees() -> None:
    """By the formula of "Slippy map tilenames" 47.37 north, 8.54 east is in the tile 536/358 of zoom 10."""
    layer, tile = Layer("zoom10", Pyramid(8), "png", projection=mercator(10)), Tile.at(0, 536, 358)
    x, z, degrees = page_place(layer, "xyz", Ground.of(TileRange.of(tile)).middle)
    middle = 536.5 / 1024 * 360 - 180
    assert degrees == pytest.approx((47.37, middle), abs=0.15)
    # The page counts from the middle of a unit, and has degrees as the projection stretches them.
    assert (x, z) == pytest.approx((middle - 0.5, 358.5 / 1024 * 360 - 180.5))
    # Of a canvas that lies nowhere on earth they are pixels.
    canvas = replace(layer, projection=Projection.from_above(100))
    assert page_place(canvas, "xyz", (3, -5)) == (150, 250, None)


@given(st.sets(st.sampled_from(square(-1, 8, left=-8)), min_size=1))
def test_the_smallest_tile_that_covers_is_found_and_a_small_view_shows_some(tiles: AbstractSet[Tile]) -> None:
    above = [{tile.ancestor(levels) for tile in tiles} for levels in range(4)]
    assert {covering(tiles)} == next(covers for covers in above if len(covers) == 1)
    view = view_around(tiles)
    assert 2 <= len(view.columns) == len(view.rows) <= 4
    assert any(tile in view for tile in tiles)
