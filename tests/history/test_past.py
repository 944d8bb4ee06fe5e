"""The past harvests of many maps, read at once."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.history.making import DAY, LATER, A, B, began, ended, found, record
from tileharvest.history.past import VISITS, Past, pasts

if TYPE_CHECKING:
    from tileharvest.history.database import History

SEGMENT = (DAY.isoformat(), DAY)
NEXT = (LATER.isoformat(), LATER)


def past(history: History, segment: tuple[str, object] = SEGMENT, name: str = "world") -> Past:
    return pasts(history, {name: segment}, ())[name]  # type: ignore[dict-item]


def test_a_harvest_is_begun_and_then_complete(history: History) -> None:
    harvest = began(history)
    assert past(history) == Past(is_begun=True)
    ended(harvest)
    assert past(history) == Past(was_ever_finished=True, is_complete=True)


def test_a_harvest_that_ended_otherwise_is_neither_begun_nor_complete(history: History) -> None:
    harvest = began(history)
    ended(harvest, reason="moved", finalise_gone=False)
    assert past(history) == Past()


def test_what_another_segment_has_had_since_does_not_matter(history: History) -> None:
    ended(began(history))
    ended(began(history, segment="run-1"))
    assert past(history).is_complete


def test_each_map_is_asked_about_its_own_segment(history: History) -> None:
    ended(began(history))
    ended(began(history, LATER, name="nether"))
    began(history, name="end")
    found = pasts(history, {"world": SEGMENT, "nether": NEXT, "end": SEGMENT, "new": SEGMENT}, ())
    assert {name: (one.is_complete, one.is_begun) for name, one in found.items()} == {
        "world": (True, False),
        "nether": (True, False),
        "end": (False, True),
        "new": (False, False),
    }


def test_visits_tell_whether_they_found_anything_new(history: History) -> None:
    days = [DAY + timedelta(days=number) for number in range(4)]
    for day, outcomes in zip(
        days, (["add", "add"], ["ign", "nMod"], ["ign", "gone"], ["ign", "fail"]), strict=True
    ):
        harvest = began(history, day)
        record(harvest, [found(outcome, tile) for outcome, tile in zip(outcomes, (A, B), strict=True)])
        ended(harvest)
    visits = pasts(history, {"world": SEGMENT}, ["world"])["world"].visits
    assert [one.has_changed for one in visits] == [True, False, True, False]
    assert [one.started.date() for one in visits] == days


def test_visits_are_read_only_where_they_are_asked_for_and_never_all(history: History) -> None:
    for number in range(VISITS + 3):
        ended(began(history, DAY + timedelta(days=number)))
    assert past(history).visits == ()
    visits = pasts(history, {"world": SEGMENT}, ["world", "unknown"])["world"].visits
    assert len(visits) == VISITS
    assert visits[-1].started.date() == DAY + timedelta(days=VISITS + 2)
