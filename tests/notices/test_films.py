"""The film that goes with the first message about a change in a week."""

from __future__ import annotations

import io
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

import av
import pytest

from tests.notices.receiver import Receiver, receiver
from tests.viewer.building import BLUE, GREEN, MAP, RED, World, picture, square
from tileharvest.history.database import History
from tileharvest.maps.description import MapDescription
from tileharvest.notices.delivery import Target
from tileharvest.notices.message import Report
from tileharvest.notices.notice import tell
from tileharvest.notices.settings import Wishes
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def films(world: World, received: Receiver, day: date, film_days: int) -> list[bytes]:
    """What came with the message of that day, beside the picture."""
    report = Report(MAP, day, {Outcome.UPDATED: 1})
    wishes = Wishes((Target(received.address()),), ("change",), film_days=film_days)
    url = f"sqlite:///{world.history_file}"
    missed = tell(report, str(day), wishes, lambda: History.open_read_only(url), lambda: world.store, 20)
    assert missed == []
    (message,) = received.posted
    return message.attachments[1:]


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


@pytest.mark.parametrize(("written", "days"), [(None, 0), ("7d", 7), ("2w", 14), ("24h", 1)])
def test_an_entry_says_of_how_many_days(written: str | None, days: int) -> None:
    description = MapDescription(name="a", url="https://map.example.net/", notify_film=written)
    assert description.film_days == days


@pytest.mark.parametrize("written", ["6h", "weekly", ""])
def test_what_is_no_number_of_days_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="key 'notify_film'"):
        MapDescription(name="a", url="https://map.example.net/", notify_film=written)
