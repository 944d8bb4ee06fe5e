"""Notices of named areas alone: when there is one, and what it says."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from scrapy.settings import Settings

from tests.notices.receiver import receiver
from tests.viewer.building import BLUE, DAY_LAYER, FIRST, MAP, SECOND, THIRD, World, picture, square
from tileharvest.errors import SiteError, TileHarvestError
from tileharvest.history.database import History
from tileharvest.maps.description import MapDescription
from tileharvest.maps.named_areas import NamedArea, add_area
from tileharvest.notices.delivery import Target
from tileharvest.notices.message import Report
from tileharvest.notices.notice import tell
from tileharvest.notices.settings import Wishes, wishes_for
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import date
    from pathlib import Path

    from tests.notices.receiver import Receiver

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

LAYER = Layer(
    DAY_LAYER,
    Pyramid(10),
    "png",
    tile_size=(8, 8),
    projection=Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0)),
)
"""A tile is 16 x 16 blocks."""
BASE = NamedArea(name="my base", layer=DAY_LAYER, corners=((0, 0), (31, 31)))
FARM = NamedArea(name="farm", layer=DAY_LAYER, corners=((64, 0), (127, 63)))
VIEWER = "http://viewer.example.net/"


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
def received() -> Iterator[Receiver]:
    with receiver() as listening:
        yield listening


@pytest.fixture
def told(world: World, received: Receiver) -> Callable[..., list[str]]:
    def told(
        day: date,
        areas: tuple[NamedArea, ...],
        occasions: tuple[str, ...] = ("change", "failure"),
        error: TileHarvestError | None = None,
    ) -> list[str]:
        report = Report(MAP, day, {Outcome.UPDATED: 1}, error)
        wishes = Wishes((Target(received.address()),), occasions, VIEWER, areas)
        url = f"sqlite:///{world.history_file}"
        missed = tell(
            report, day.isoformat(), wishes, lambda: History.open_read_only(url), lambda: world.store, 20
        )
        assert missed == []
        return [each.title for each in received.posted]

    return told


def test_an_area_that_has_changed_is_named_with_a_link_and_a_picture(
    told: Callable[..., list[str]], received: Receiver
) -> None:
    assert told(SECOND, (BASE, FARM)) == [f"{MAP}, {SECOND}: my base has changed, 1 tile changed"]
    (message,) = received.posted
    link = f"<{VIEWER}#map={MAP}&layer={DAY_LAYER}&day={SECOND}&x=15.5&z=15.5&zoom=0>"
    assert f"Areas that changed:\n\n- `my base`: 1 tile\n  {link}" in message.body
    assert "Where most changed" not in message.body
    assert message.picture.width > 0


def test_a_change_elsewhere_is_no_occasion(told: Callable[..., list[str]]) -> None:
    assert told(THIRD, (BASE, FARM)) == []


def test_a_change_is_told_where_the_history_cannot_say_whether_it_lies_in_an_area(
    tmp_path: Path, world: World, received: Receiver
) -> None:
    broken = tmp_path / "history.sqlite"
    broken.write_bytes(b"no database")
    wishes = Wishes((Target(received.address()),), ("change",), VIEWER, (BASE, FARM))
    report = Report(MAP, THIRD, {Outcome.UPDATED: 1}, None)
    assert not tell(
        report,
        "today",
        wishes,
        lambda: History.open_read_only(f"sqlite:///{broken}"),
        lambda: world.store,
        20,
    )
    (message,) = received.posted
    assert message.title == f"{MAP}, {THIRD}: 1 tile changed"
    assert "it is not known whether a watched area has changed" in message.body


def test_each_area_that_has_changed_is_named(told: Callable[..., list[str]]) -> None:
    (title,) = told(FIRST, (BASE, FARM))
    assert title == f"{MAP}, {FIRST}: my base has changed, farm has changed, 1 tile changed"


def test_a_failure_is_told_all_the_same(told: Callable[..., list[str]]) -> None:
    (title,) = told(THIRD, (BASE,), error=SiteError("it cannot be reached"))
    assert title == f"{MAP}, {THIRD}: the harvest failed, 1 tile changed"


def test_who_wants_to_be_told_always_is(told: Callable[..., list[str]]) -> None:
    assert told(THIRD, (BASE,), ("always",)) == [f"{MAP}, {THIRD}: 1 tile changed"]


def test_an_area_in_a_layer_that_is_gone_is_left_out_with_a_word(
    told: Callable[..., list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    lost = NamedArea(name="lost", layer="cave", corners=((0, 0), (31, 31)))
    assert told(SECOND, (lost,)) == []
    (record,) = caplog.records
    assert record.getMessage().startswith(f"area 'lost' of map '{MAP}' is left out")


def wishes(world: World, *areas: str) -> Wishes:
    settings = Settings(
        {"TILEHARVEST_DATA": world.data, "NOTIFY": [], "NOTIFY_ON": ["change"], "VIEWER_URL": ""}
    )
    description = MapDescription(
        name=MAP, url="https://map.example.net/", notify=("json://x/",), areas=tuple(areas)
    )
    found = wishes_for(settings, description)
    assert found is not None
    return found


def test_the_areas_of_an_entry_are_those_of_the_owners_file(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path_factory.mktemp("areas"))
    for area in (BASE, FARM):
        add_area(world.data / "areas.toml", MAP, area)
    assert wishes(world).areas is None
    assert wishes(world, "farm").areas == (FARM,)
    assert caplog.records == []
    assert wishes(world, "farm", "barn").areas == (FARM,)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        f"an area to be watched is left out: map '{MAP}' has no area 'barn'; it has 'my base', 'farm';"
        " this goes on without"
    )
