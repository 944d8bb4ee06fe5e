from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from tests.history.making import DAY, END, LATER, LAYER, A, B, C, began, ended, found, image_of, record
from tileharvest.errors import HistoryError
from tileharvest.history.costs import Cost
from tileharvest.history.proofs import last_full, proofs
from tileharvest.history.recorded_versions import RecordedVersion, tile_versions
from tileharvest.history.summaries import HarvestSummary, finished_at, harvest_summaries, map_summaries
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator, Version

if TYPE_CHECKING:
    from tileharvest.history.database import History


@pytest.fixture
def harvested(history: History) -> History:
    """Two tiles with the same image, of which one changed and the other went; a third without a version."""
    first = began(history)
    record(first, [found("add", A, b"sea"), found("add", B, b"sea"), found("404", C)], Cost(5, 700, 3))
    ended(first)
    second = began(history, LATER)
    record(second, [found("upd", A, b"island"), found("gone", B)], Cost(3, 600))
    ended(second)
    return history


def test_a_map_is_summed_up(harvested: History) -> None:
    (summary,) = map_summaries(harvested)
    assert (summary.name, summary.tiles, summary.versions) == ("world", 1, 4)
    # An image of several tiles counts once.
    assert summary.image_bytes == len(b"sea") + len(b"island")


def test_a_map_names_its_last_harvest(harvested: History) -> None:
    (summary,) = map_summaries(harvested)
    last = harvest_summaries(harvested, "world")[-1]
    assert (summary.day, summary.reason, summary.depth) == (last.day, last.reason, last.depth)
    assert (last.day, last.reason, last.depth) == (LATER, "finished", {LAYER: 10})


def test_of_an_unfinished_harvest_a_map_tells_the_day_alone(harvested: History) -> None:
    began(harvested, LATER + timedelta(1))
    (summary,) = map_summaries(harvested)
    assert (summary.day, summary.reason, summary.depth) == (LATER + timedelta(1), None, {LAYER: 10})


def test_what_a_list_of_maps_needs_is_asked_for_all_maps_at_once(harvested: History) -> None:
    """However many there are."""
    statements: list[object] = []
    asked = []
    event.listen(harvested._engine, "before_cursor_execute", lambda *said: statements.append(said[2]))
    for number in range(3):
        statements.clear()
        map_summaries(harvested)
        proofs(harvested)
        last_full(harvested)
        asked.append(len(statements))
        ended(began(harvested, name=f"other {number}"))
    assert asked[0] == asked[1] == asked[2] > 0


def test_harvests_come_oldest_first_with_what_they_found(harvested: History) -> None:
    first, second = harvest_summaries(harvested, "world")
    assert first == HarvestSummary(
        id=1,
        segment="2021-02-13",
        day=DAY,
        started=datetime(2021, 2, 13, 6, tzinfo=UTC),
        ended=END,
        reason="finished",
        cost=Cost(requests=5, received_bytes=700, stored_bytes=3),
        depth={LAYER: 10},
        renderer="overviewer",
        counts={Outcome.ADDED: 2, Outcome.NOTHING: 1},
    )
    assert second.counts == {Outcome.UPDATED: 1, Outcome.GONE: 1}


def test_an_unfinished_harvest_has_the_counts_so_far(harvested: History) -> None:
    record(began(harvested, LATER.replace(day=20)), [found("ign"), found("fail", B)])
    summary = harvest_summaries(harvested, "world")[-1]
    assert (summary.ended, summary.reason) == (None, None)
    assert summary.counts == {Outcome.IGNORED: 1, Outcome.FAILED: 1}


def test_versions_of_a_tile_come_newest_last(harvested: History) -> None:
    assert tile_versions(harvested, "world", LAYER, A) == [
        RecordedVersion(LAYER, A, Version(DAY, image_of(b"sea"), Validator('"1"'))),
        RecordedVersion(LAYER, A, Version(LATER, image_of(b"island"), Validator('"1"'))),
    ]


def test_a_tile_never_recorded_has_no_versions(harvested: History) -> None:
    assert tile_versions(harvested, "world", LAYER, C) == []


def test_an_unknown_map_is_refused_with_the_names_of_the_others(harvested: History) -> None:
    began(harvested, name="nether")
    with pytest.raises(HistoryError, match="no map 'wrold'; it has 'nether', 'world'"):
        harvest_summaries(harvested, "wrold")


def test_an_unknown_layer_is_refused_with_the_names_of_the_others(harvested: History) -> None:
    with pytest.raises(HistoryError, match="map 'world' has no layer 'night'; it has 'day'"):
        tile_versions(harvested, "world", "night")


def test_an_empty_history_says_that_it_has_no_map(history: History) -> None:
    with pytest.raises(HistoryError, match="no map 'world'; it has none yet"):
        harvest_summaries(history, "world")


def test_a_finished_segment_says_when_it_was(harvested: History) -> None:
    assert finished_at(harvested, "world", DAY.isoformat()) == END
