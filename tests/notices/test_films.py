"""The film that goes with the first message about a change in a week."""

from __future__ import annotations

import io
import tempfile
import threading
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

import av
import pytest

from tests.notices.receiver import Receiver, receiver
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    GREEN,
    MAP,
    NIGHT_LAYER,
    RED,
    World,
    picture,
    square,
)
from tileharvest.history.database import History
from tileharvest.maps.description import MapDescription
from tileharvest.maps.named_areas import NamedArea
from tileharvest.notices.delivery import Target
from tileharvest.notices.message import Report
from tileharvest.notices.notice import tell
from tileharvest.notices.settings import Wishes
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

MONDAY: Final = date(2021, 3, 1)
DAYS: Final = {MONDAY - timedelta(days=3): GREEN, MONDAY: BLUE, MONDAY + timedelta(days=2): RED}
"""The colour of one of the tiles, which is another one on each of these days."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("world"))
    tiles = square(0, 4, -2, -2)
    for number, (day, colour) in enumerate(DAYS.items()):
        changed = tiles if number == 0 else tiles[5:6]
        world.harvest(day, dict.fromkeys(changed, picture(colour)))
    return world


@pytest.fixture
def received() -> Iterator[Receiver]:
    with receiver() as listening:
        yield listening


def films(
    world: World, received: Receiver, day: date, film_days: int, areas: tuple[NamedArea, ...] | None = None
) -> list[bytes]:
    """What came with the message of that day, beside the picture."""
    report = Report(MAP, day, {Outcome.UPDATED: 1})
    wishes = Wishes((Target(received.address()),), ("change",), areas=areas, film_days=film_days)
    url = f"sqlite:///{world.history_file}"
    missed = tell(report, str(day), wishes, lambda: History.open_read_only(url), lambda: world.store, 20)
    assert missed == []
    (message,) = received.posted
    return message.attachments[1:]


def ends(film: bytes) -> list[tuple[int, ...]]:
    """The colours right of and above the middle of the first frame and of the last one."""
    with av.open(io.BytesIO(film)) as container:
        frames = list(container.decode(video=0))
    images = [frame.to_image().convert("RGB") for frame in (frames[0], frames[-1])]
    found = [image.getpixel((480 + 20, 270 - 20)) for image in images]
    return [pixel for pixel in found if isinstance(pixel, tuple)]


def is_near(pixel: tuple[int, ...], colour: tuple[int, ...]) -> bool:
    return max(abs(one - other) for one, other in zip(pixel, colour, strict=False)) <= 12


def test_the_first_change_of_a_week_comes_with_a_film_of_seven_days(world: World, received: Receiver) -> None:
    (film,) = films(world, received, MONDAY, 7)
    with av.open(io.BytesIO(film)) as container:
        frames = list(container.decode(video=0))
    inside = (480 - 20, 270 + 20)
    found = [frame.to_image().convert("RGB") for frame in (frames[0], frames[-1])]
    before, after = (image.getpixel(inside) for image in found)
    assert before != after
    for pixel, colour in ((before, GREEN), (after, BLUE)):
        assert isinstance(pixel, tuple)
        assert max(abs(one - other) for one, other in zip(pixel, colour, strict=False)) <= 12


def test_a_later_change_of_the_week_comes_without(world: World, received: Receiver) -> None:
    assert films(world, received, MONDAY + timedelta(days=2), 7) == []


def test_nobody_gets_a_film_who_has_not_asked_for_one(world: World, received: Receiver) -> None:
    assert films(world, received, MONDAY, 0) == []


LAYER: Final = Layer(
    DAY_LAYER,
    Pyramid(10),
    "png",
    tile_size=(8, 8),
    projection=Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0)),
)
"""A tile is 16 x 16 blocks."""
BASE: Final = NamedArea(name="base", layer=DAY_LAYER, corners=((0, -16), (15, -1)))
"""The tile right of and above the origin."""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What changes on the first Monday lies beside the base, and on the Wednesday it is the base. A week
    later the night changes alone."""
    world = World(tmp_path_factory.mktemp("wide"))
    tiles = square(0, 4, -2, -2)
    base, beside = ([tile for tile in tiles if (tile.x, tile.y) == at] for at in ((1, 1), (-1, 1)))
    assert base
    assert beside
    night = replace(LAYER, name=NIGHT_LAYER)
    world.harvest(MONDAY - timedelta(days=3), dict.fromkeys(tiles, picture(GREEN)), described=LAYER)
    world.harvest(
        MONDAY - timedelta(days=2),
        dict.fromkeys(tiles, picture(GREEN)),
        layer=NIGHT_LAYER,
        described=night,
    )
    world.harvest(MONDAY, dict.fromkeys(beside, picture(BLUE)), described=LAYER)
    world.harvest(MONDAY + timedelta(days=2), dict.fromkeys(base, picture(RED)), described=LAYER)
    world.harvest(
        MONDAY + timedelta(days=7),
        dict.fromkeys(tiles, picture(BLUE)),
        layer=NIGHT_LAYER,
        described=night,
    )
    return world


def test_a_change_beside_the_watched_area_does_not_count_as_the_first(
    wide: World, received: Receiver
) -> None:
    (film,) = films(wide, received, MONDAY + timedelta(days=2), 7, (BASE,))
    before, after = ends(film)
    assert is_near(before, GREEN)
    assert is_near(after, RED)


def test_the_layer_that_changed_is_filmed(wide: World, received: Receiver) -> None:
    (film,) = films(wide, received, MONDAY + timedelta(days=7), 7)
    before, after = ends(film)
    assert is_near(before, GREEN)
    assert is_near(after, BLUE)


class Silent:
    """A store that answers no more, for who asks it again."""

    def __init__(self) -> None:
        self.ending = threading.Event()

    def read(self, *names: object) -> bytes:
        self.ending.wait(60)
        raise TimeoutError

    def __getattr__(self, name: str) -> object:
        return self.read


def test_a_message_goes_when_the_film_and_a_target_never_come_to_an_end(
    world: World, received: Receiver
) -> None:
    silent = Silent()
    stores = iter([world.store])
    report = Report(MAP, MONDAY, {Outcome.UPDATED: 1})
    targets = Target(received.address()), Target(received.address("/hang"))
    url = f"sqlite:///{world.history_file}"
    wishes = Wishes(targets, ("change",), film_days=7)
    missed = tell(report, "a", wishes, lambda: History.open_read_only(url), lambda: next(stores, silent), 6)
    silent.ending.set()
    (late,) = missed
    assert late.startswith("json://... (")
    (seconds,) = [float(word) for word in late.split() if word.replace(".", "").isdigit()] or [0.0]
    assert seconds <= 3
    assert {message.path for message in received.posted} == {"/", "/hang"}
    assert [len(message.attachments) for message in received.posted] == [1, 1]


def test_a_message_goes_when_there_is_no_room_for_the_film(
    world: World,
    received: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "away"))
    assert films(world, received, MONDAY, 7) == []
    assert "goes without a film" in caplog.text


@pytest.mark.parametrize(("written", "days"), [(None, 0), ("7d", 7), ("2w", 14), ("24h", 1)])
def test_an_entry_says_of_how_many_days(written: str | None, days: int) -> None:
    description = MapDescription(name="a", url="https://map.example.net/", notify_film=written)
    assert description.film_days == days


@pytest.mark.parametrize("written", ["6h", "weekly", ""])
def test_what_is_no_number_of_days_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="key 'notify_film'"):
        MapDescription(name="a", url="https://map.example.net/", notify_film=written)
