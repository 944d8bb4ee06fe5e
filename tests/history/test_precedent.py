"""Which harvests the next one is judged by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.history.making import DAY, LATER, LAYER, A, B, began, ended, found, record
from tests.history.pyramid import THIRD
from tileharvest.history.summaries import precedent

if TYPE_CHECKING:
    from datetime import date

    from tileharvest.history.database import History


def harvested(history: History, day: date, walk: str | None, outcome: str = "ign") -> None:
    harvest = began(history, day)
    if walk is not None:
        harvest.note_walk(walk, "for a test")
    record(harvest, [found(outcome, A), found(outcome, B)])
    ended(harvest)


def test_a_map_without_a_finished_harvest_has_none(history: History) -> None:
    assert precedent(history, "world") is None
    began(history)
    assert precedent(history, "world") is None


def test_the_last_of_each_walk_is_told(history: History) -> None:
    harvested(history, DAY, "full", "add")
    harvested(history, LATER, "pruned")
    harvested(history, THIRD, "pruned")
    last = precedent(history, "world")
    assert last is not None
    assert last.pruned == last.summary
    assert [one and one.day for one in (last.summary, last.full)] == [THIRD, DAY]
    assert last.present_bytes == 2 * len(b"first")


def test_a_harvest_of_a_release_that_noted_no_walk_was_full(history: History) -> None:
    harvested(history, DAY, None, "add")
    last = precedent(history, "world")
    assert last is not None
    assert (last.full, last.pruned) == (last.summary, None)


def test_a_harvest_that_repaired_itself_is_of_neither_walk(history: History) -> None:
    harvested(history, DAY, "full", "add")
    repaired = began(history, LATER)
    repaired.note_walk("pruned", "for a test")
    repaired.distrust(LAYER, "a change")
    repaired.note_walk("full", "continued")
    record(repaired, [found("ign", A), found("upd", B)])
    ended(repaired)
    last = precedent(history, "world")
    assert last is not None
    assert last.summary.walk == "repaired"
    assert (last.full and last.full.day, last.pruned) == (DAY, None)


def test_an_unfinished_harvest_does_not_count(history: History) -> None:
    harvested(history, DAY, "full", "add")
    began(history, LATER).note_walk("pruned", "for a test")
    last = precedent(history, "world")
    assert last is not None
    assert (last.summary.day, last.pruned) == (DAY, None)
