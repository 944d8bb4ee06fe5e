"""Events as they are read, against what was recorded and what was published."""

from collections.abc import Iterator
from datetime import date, timedelta

import pytest

from tests.history.making import DAY, LATER, began, ended, found, record
from tests.history.random_world import DAYS, FIRST, LAYERS, MAP, random_world
from tileharvest.history import changes as reading
from tileharvest.history.changes import certainty, events
from tileharvest.history.database import History
from tileharvest.history.outlines import LayerOutline, map_outline
from tileharvest.tiles.events import Changed, events_of
from tileharvest.tiles.grid import Tile, TileRange

THIRD = LATER + timedelta(days=3)
A, B, C = Tile(0, 1, 1), Tile(0, 3, 1), Tile(0, 1, 3)


@pytest.fixture
def history() -> Iterator[History]:
    with History.open_temporary() as opened:
        yield opened


def the_layer(history: History, name: str = "world") -> LayerOutline:
    return map_outline(history, name).layers[0]


def harvest(
    history: History, day: date, added: list[Tile], reason: str = "finished", kept: str | None = None
) -> None:
    begun = began(history, day)
    begun.note_walk("full", "a test", kept)
    record(begun, [found("add", tile, str(day).encode()) for tile in added])
    ended(begun, reason=reason)


def told(history: History, first: date = DAY, last: date = THIRD) -> list[tuple[date, int, str]]:
    layer = the_layer(history)
    without = certainty(history, layer.id).first_asked
    return [(one.first, one.tiles, one.kind) for one in events(history, layer, first, last, without)]


@pytest.mark.parametrize("seed", range(4))
def test_events_are_those_of_all_versions_of_the_deepest_zoom(history: History, seed: int) -> None:
    world = random_world(history, seed)
    first, last = FIRST + timedelta(days=4), FIRST + timedelta(days=DAYS - 6)
    changed: dict[date, list[Changed]] = {}
    for tile, versions in world.of(LAYERS[0], 0).items():
        was = False
        for day, image in sorted(versions.items()):
            if first <= day <= last:
                changed.setdefault(day, []).append((tile.x, tile.y, was, image is not None))
            was = image is not None
    expected = events_of(0, sorted(changed.items()))
    assert len(expected) > 3
    assert events(history, map_outline(history, MAP).layers[0], first, last) == sorted(
        expected, key=lambda event: (event.first, event.seed)
    )


def test_the_first_complete_harvest_is_no_event(history: History) -> None:
    harvest(history, DAY, [A])
    harvest(history, LATER, [B])
    assert told(history) == [(LATER, 1, "new")]


def test_what_a_map_begins_to_keep_has_not_come_into_being(history: History) -> None:
    harvest(history, DAY, [A], kept="one zone")
    harvest(history, LATER, [B], kept="two zones")
    harvest(history, THIRD, [C], kept="two zones")
    assert told(history) == [(THIRD, 1, "new")]


def test_a_known_tile_that_changes_while_others_are_first_asked_is_an_event(history: History) -> None:
    harvest(history, DAY, [A], kept="one zone")
    begun = began(history, LATER)
    begun.note_walk("full", "a test", "two zones")
    record(begun, [found("upd", A, b"another"), found("add", B)])
    ended(begun)
    assert told(history) == [(LATER, 1, "changed")]


def test_a_day_on_which_a_whole_map_changes_is_one_event(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    harvest(history, DAY, [A])
    far = Tile(0, 2001, -2001)
    begun = began(history, LATER)
    record(begun, [found("upd", A, b"another"), found("add", B), found("add", far)])
    ended(begun)
    monkeypatch.setattr(reading, "MOST_OF_A_DAY", 2)
    (event,) = events(history, the_layer(history), DAY + timedelta(days=1), THIRD)
    assert (event.changed, event.new, event.gone) == (1, 2, 0)
    assert event.area == TileRange.covering([A, B, far])


def test_a_day_that_is_harvested_by_the_hour_is_settled_when_the_next_has_begun(history: History) -> None:
    for day in (DAY, LATER):
        ended(began(history, day, segment=f"{day}T06+00:00"))
    assert certainty(history, the_layer(history).id).settled == DAY
