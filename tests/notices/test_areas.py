"""Notices of named areas alone: when there is one, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from scrapy.settings import Settings

from tests.viewer.building import BLUE, DAY_LAYER, FIRST, MAP, SECOND, THIRD, World, picture, square
from tileharvest.errors import SiteError
from tileharvest.maps.description import MapDescription
from tileharvest.maps.named_areas import NamedArea, add_area
from tileharvest.notices.delivery import wishes_for
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.notices.receiver import Posted

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

# A tile is 16 x 16 blocks.
PROJECTION: Final = Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0))
LAYER: Final = Layer(DAY_LAYER, Pyramid(10), "png", tile_size=(8, 8), projection=PROJECTION)
BASE: Final = NamedArea(name="my base", layer=DAY_LAYER, corners=((0, 0), (31, 31)))
FARM: Final = NamedArea(name="farm", layer=DAY_LAYER, corners=((64, 0), (127, 63)))
LOST: Final = NamedArea(name="lost", layer="cave", corners=((0, 0), (31, 31)))
BOTH: Final = (BASE, FARM)
VIEWER: Final = "http://viewer.example.net/"


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


def test_an_area_that_has_changed_is_named_with_a_link_and_a_picture(
    world: World, told: Callable[..., list[Posted]]
) -> None:
    (message,) = told(world, SECOND, areas=BOTH, viewer=VIEWER)
    assert message.title == f"{MAP}, {SECOND}: my base has changed, 1 tile changed"
    link = f"<{VIEWER}#map={MAP}&layer={DAY_LAYER}&day={SECOND}&x=15.5&z=15.5&zoom=0>"
    assert f"Areas that changed:\n\n- `my base`: 1 tile\n  {link}" in message.body
    assert "Where most changed" not in message.body
    assert message.picture.width > 0


@pytest.mark.parametrize(
    ("day", "areas", "more", "titles"),
    [
        (THIRD, BOTH, {}, []),
        (FIRST, BOTH, {}, ["my base has changed, farm has changed, 1 tile changed"]),
        (THIRD, (BASE,), {"error": SiteError("no")}, ["the harvest failed, 1 tile changed"]),
        (THIRD, (BASE,), {"occasions": ("always",)}, ["1 tile changed"]),
        (SECOND, (LOST,), {}, []),
    ],
    ids=["a change elsewhere", "several areas", "a failure", "always", "an area of a layer that is gone"],
)
def test_a_change_elsewhere_is_no_occasion_by_itself(
    world: World,
    told: Callable[..., list[Posted]],
    day: object,
    areas: object,
    more: dict[str, object],
    titles: list[str],
) -> None:
    found = [one.title.partition(": ")[2] for one in told(world, day, areas=areas, **more)]
    assert found == titles


def test_a_change_is_told_where_the_history_cannot_say_whether_it_lies_in_an_area(
    world: World, told: Callable[..., list[Posted]], tmp_path: Path
) -> None:
    (tmp_path / "history.sqlite").write_bytes(b"no database")
    (message,) = told(world, THIRD, url=f"sqlite:///{tmp_path / 'history.sqlite'}", areas=BOTH)
    assert message.title == f"{MAP}, {THIRD}: 1 tile changed"
    assert "it is not known whether a watched area has changed" in message.body


def test_the_areas_of_an_entry_are_those_of_the_owners_file(
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
