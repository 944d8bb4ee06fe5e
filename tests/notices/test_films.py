"""The film of the last days that goes with a message about a change."""

from __future__ import annotations

import io
import threading
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

import av
import pytest

from tests.notices.test_areas import LAYER
from tests.viewer.building import BLUE, DAY_LAYER, GREEN, MAP, RED, World, picture, square
from tileharvest.history.database import History
from tileharvest.maps.description import MapDescription
from tileharvest.maps.named_areas import NamedArea
from tileharvest.notices.delivery import Target
from tileharvest.notices.message import Report
from tileharvest.notices.notice import send_notice
from tileharvest.notices.settings import Wishes
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.notices.receiver import Posted, Receiver

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

MONDAY: Final = date(2021, 3, 1)
WEDNESDAY: Final = MONDAY + timedelta(days=2)
BASE: Final = NamedArea(name="base", layer=DAY_LAYER, corners=((0, -16), (15, -1)))
"""The tile right of and above the origin."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What changes on the first Monday lies beside the base, and on the Wednesday it is the base."""
    world = World(tmp_path_factory.mktemp("world"))
    tiles = square(0, 4, -2, -2)
    base, beside = ([tile for tile in tiles if (tile.x, tile.y) == at] for at in ((1, 1), (-1, 1)))
    for days, its, colour in ((-3, tiles, GREEN), (0, beside, BLUE), (2, base, RED)):
        day = MONDAY + timedelta(days=days)
        world.harvest(day, dict.fromkeys(its, picture(colour)), layer=DAY_LAYER, described=LAYER)
    return world


def is_near(pixel: Any, colour: tuple[int, ...]) -> bool:
    return max(abs(one - other) for one, other in zip(pixel, colour, strict=False)) <= 12


@pytest.mark.parametrize(
    ("day", "wishes", "at", "colours"),
    [
        (MONDAY, {}, (480 - 20, 270 + 20), (GREEN, BLUE)),
        (WEDNESDAY, {"areas": (BASE,)}, (480 + 20, 270 - 20), (GREEN, RED)),
    ],
    ids=["the place that changed", "a watched area"],
)
def test_a_change_comes_with_a_film_of_the_last_days(
    world: World,
    told: Callable[..., list[Posted]],
    day: date,
    wishes: dict[str, Any],
    at: tuple[int, int],
    colours: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    (message,) = told(world, day, film_days=7, **wishes)
    _, film = message.attachments
    with av.open(io.BytesIO(film)) as container:
        frames = list(container.decode(video=0))
    for frame, colour in zip((frames[0], frames[-1]), colours, strict=True):
        assert is_near(frame.to_image().convert("RGB").getpixel(at), colour)


@pytest.mark.parametrize(("day", "film_days"), [(MONDAY - timedelta(days=3), 7), (MONDAY, 0)])
def test_the_first_harvest_comes_without_a_film_and_so_does_any_if_none_was_asked_for(
    world: World, told: Callable[..., list[Posted]], day: date, film_days: int
) -> None:
    (message,) = told(world, day, film_days=film_days)
    assert len(message.attachments) == 1


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
    missed = send_notice(
        report, "a", wishes, lambda: History.open_read_only(url), lambda: next(stores, silent), 6
    )
    silent.ending.set()
    (late,) = missed
    assert late.startswith("json://... (")
    (seconds,) = [float(word) for word in late.split() if word.replace(".", "").isdigit()] or [0.0]
    assert seconds <= 3
    assert {message.path for message in received.posted} == {"/", "/hang"}
    assert [len(message.attachments) for message in received.posted] == [1, 1]


@pytest.mark.parametrize(("written", "days"), [(None, 0), ("7d", 7), ("2w", 14), ("24h", 1)])
def test_an_entry_says_of_how_many_whole_days(written: str | None, days: int) -> None:
    description = MapDescription(name="a", url="https://map.example.net/", notify_film=written)
    assert description.film_days == days
    for other in ("6h", "weekly", ""):
        with pytest.raises(ValueError, match="key 'notify_film'"):
            MapDescription(name="a", url="https://map.example.net/", notify_film=other)
