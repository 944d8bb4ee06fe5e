"""What every queue keeps to: what was seen, what it counts, and the segments that requests belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scheduler.driving import DAY, entry, pending
from tileharvest.queue.port import Lane

if TYPE_CHECKING:
    from tests.scheduler.driving import Driven

NEXT_DAY = "2021-02-14"


# What was seen


def test_a_request_is_made_once_in_a_segment(queue: Driven) -> None:
    queue.push(entry("1"))
    assert queue.push(entry("1")).duplicates == 1
    assert queue.bodies() == ["1"]


def test_a_request_that_is_finished_is_still_seen(queue: Driven) -> None:
    queue.exchange(finished=queue.exchange(1, pushed=[entry("1")]).leases)
    assert queue.push(entry("1")).duplicates == 1
    assert queue.bodies() == []


def test_a_request_twice_in_one_push_is_made_once(queue: Driven) -> None:
    assert queue.push(entry("1"), entry("2"), entry("1")).duplicates == 1
    assert queue.bodies() == ["1", "2"]


def test_a_request_is_made_again_in_the_next_segment(queue: Driven) -> None:
    queue.push(entry("1"))
    assert queue.push(entry("1", segment=NEXT_DAY)).duplicates == 0
    assert [lease.segment for lease in queue.lease(9)] == [DAY, NEXT_DAY]


def test_a_fingerprint_stands_for_a_request_whatever_its_body(queue: Driven) -> None:
    queue.push(entry("1", fingerprint=b"same"), entry("2", fingerprint=b"same"))
    assert queue.bodies() == ["1"]


def test_without_a_fingerprint_nothing_is_filtered_or_counted(queue: Driven) -> None:
    answer = queue.push(entry("1", fingerprint=None), entry("1", fingerprint=None))
    assert (answer.duplicates, answer.false_alarms) == (0, 0)
    assert queue.counts().seen == 0
    assert queue.bodies() == ["1", "1"]


def test_what_is_new_and_what_is_not_keep_their_order_in_one_push(queue: Driven) -> None:
    queue.push(entry("old"))
    pushed = [entry("b"), entry("old"), entry("a"), entry("A")]
    assert queue.push(*pushed, entry("c"), entry("d", fingerprint=None)).duplicates == 1
    assert queue.bodies() == ["old", "b", "a", "A", "c", "d"]


def test_what_was_seen_is_seen_in_the_next_program(queue: Driven) -> None:
    queue.push(entry("1"), entry("2"))
    queue.restart()
    assert queue.push(entry("1"), entry("3"), entry("3")).duplicates == 2
    assert queue.bodies() == ["1", "2", "3"]


def test_what_belongs_to_no_segment_is_filtered_too_and_counted_for_none(queue: Driven) -> None:
    queue.push(entry("1"), entry("2"))
    assert queue.push(entry("pushed", segment=""), entry("pushed", segment="")).duplicates == 1
    assert queue.counts().seen == 2
    assert sorted(queue.bodies()) == ["1", "2", "pushed"]


@pytest.mark.parametrize("number", [1, 10_000])
def test_no_fingerprint_of_a_segment_is_forgotten(queue: Driven, number: int) -> None:
    entries = [entry("", fingerprint=b"%d" % n) for n in range(number)]
    queue.push(*entries, entry("", fingerprint=b"x", segment=NEXT_DAY))
    assert queue.push(*entries, entry("", fingerprint=b"x")).duplicates == number
    queue.restart()
    assert queue.push(*entries).duplicates == number


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(prints=st.sets(st.binary(max_size=40), max_size=20))
def test_any_bytes_are_a_fingerprint(queue: Driven, prints: set[bytes]) -> None:
    queue.forget(DAY)
    entries = [entry("", fingerprint=one) for one in prints]
    assert queue.push(*entries).duplicates == 0
    assert queue.push(*entries).duplicates == len(prints)


# Counts


def test_counts_tell_what_is_where(queue: Driven) -> None:
    priorities = [1, 1, 1, 1, 0, 0, 0, -1, -1]
    queue.push(*(entry(str(number), priority) for number, priority in enumerate(priorities)))
    queue.push(entry("delayed", due=10.0))
    first, second, _ = queue.lease(3)
    queue.exchange(finished=[first], failed=[(second, "no")])
    counts = queue.counts()
    assert pending(queue) == (1, 3, 2)
    assert (counts.delayed, counts.leased, counts.failed) == (1, 1, 1)
    assert (counts.done, counts.seen) == (1, 10)


def test_an_empty_queue_counts_nothing(queue: Driven) -> None:
    counts = queue.counts()
    assert counts.pending == {Lane.PLUS: 0, Lane.NORMAL: 0, Lane.MINUS: 0}
    assert (counts.delayed, counts.leased, counts.failed, counts.done, counts.seen) == (0, 0, 0, 0, 0)


def test_what_is_due_by_now_is_counted_as_pending(queue: Driven) -> None:
    queue.push(entry("1", 1, due=10.0))
    assert pending(queue, now=10.0) == (1, 0, 0)
    assert queue.counts(10.0).delayed == 0


def test_what_expired_by_now_is_counted_as_pending(queue: Driven) -> None:
    queue.exchange(1, pushed=[entry("1")])
    assert pending(queue, now=100.0) == (0, 1, 0)
    assert queue.counts(100.0).leased == 0


def test_done_and_seen_are_those_of_the_newest_segment(queue: Driven) -> None:
    queue.exchange(finished=queue.exchange(2, pushed=[entry("1"), entry("2")]).leases)
    queue.push(entry("1", segment=NEXT_DAY))
    counts = queue.counts()
    assert (counts.done, counts.seen) == (0, 1)


# Segments


def test_a_forgotten_segment_leaves_nothing_but_failures(queue: Driven) -> None:
    queue.push(entry("failed"), entry("leased"), entry("waiting"), entry("delayed", due=9.0))
    failed, leased = queue.lease(2)
    queue.exchange(failed=[(failed, "no")])
    queue.note(DAY, "audit", "done")
    queue.forget(DAY)
    counts = queue.counts(99.0)
    assert (pending(queue, 99.0), counts.leased, counts.delayed) == ((0, 0, 0), 0, 0)
    assert (counts.seen, queue.noted(DAY, "audit")) == (0, None)
    assert queue.reasons() == [("failed", "no")]
    assert queue.exchange(finished=[leased]).refused == 1


def test_a_forgotten_segment_can_begin_again(queue: Driven) -> None:
    (old,) = queue.exchange(1, pushed=[entry("1")]).leases
    queue.forget(DAY)
    answer = queue.exchange(1, pushed=[entry("1")])
    assert answer.duplicates == 0
    assert queue.exchange(finished=[old]).refused == 1
    assert queue.exchange(finished=answer.leases).refused == 0


def test_to_forget_a_segment_spares_the_others(queue: Driven) -> None:
    queue.push(entry("1"), entry("1", segment=NEXT_DAY), entry("2", due=5.0, segment=NEXT_DAY))
    queue.note(NEXT_DAY, "audit", "done")
    queue.forget(DAY)
    queue.forget("never opened")
    assert queue.bodies(now=5.0) == ["1", "2"]
    assert queue.noted(NEXT_DAY, "audit") == "done"
    assert queue.push(entry("1", segment=NEXT_DAY), entry("2", segment=NEXT_DAY)).duplicates == 2


@pytest.mark.parametrize(
    ("kept", "current", "dropped"),
    [
        (1, "d", ["a", "b", "c"]),
        (2, "d", ["a", "b"]),
        (9, "d", []),
        (2, "a", ["b", "c"]),
        (1, "not yet", ["a", "b", "c", "d"]),
    ],
)
def test_old_segments_are_forgotten(queue: Driven, kept: int, current: str, dropped: list[str]) -> None:
    for segment in "abcd":
        queue.push(entry(segment, segment=segment))
    assert queue.forget_others(kept, current) == dropped
    assert queue.bodies() == [segment for segment in "abcd" if segment not in dropped]


def test_the_current_segment_is_always_kept(queue: Driven) -> None:
    with pytest.raises(ValueError, match="0 segments"):
        queue.forget_others(0, DAY)


def test_a_remark_stays_with_its_segment(queue: Driven) -> None:
    assert queue.noted(DAY, "depth") is None
    for depth in ("12", "13"):
        queue.note(DAY, "depth", depth)
        assert queue.noted(DAY, "depth") == depth
    assert (queue.noted(DAY, "zones"), queue.noted(NEXT_DAY, "depth")) == (None, None)


def test_all_remarks_of_a_segment_are_told_together(queue: Driven) -> None:
    for segment, key, value in ((DAY, "depth", "12"), (DAY, "zones", "all"), (NEXT_DAY, "depth", "13")):
        queue.note(segment, key, value)
    assert queue.run(queue.queue.notes(DAY)) == {"depth": "12", "zones": "all"}
    assert queue.run(queue.queue.notes("2021-02-12")) == {}


def test_an_empty_remark_drops_the_one_before(queue: Driven) -> None:
    queue.note(DAY, "depth", "12")
    for _ in range(2):
        queue.note(DAY, "depth", "")
        assert queue.run(queue.queue.notes(DAY)) == {}


def test_what_is_remarked_of_no_segment_stays_when_others_are_dropped(queue: Driven) -> None:
    queue.note("", "paused", "since monday")
    queue.note(DAY, "depth", "12")
    queue.forget_others(1, NEXT_DAY)
    assert queue.run(queue.queue.notes("")) == {"paused": "since monday"}


def test_an_answer_that_has_remarks_has_those_of_no_segment_as_they_are_now(queue: Driven) -> None:
    queue.note(DAY, "depth", "12")
    for value, remarks in (("since monday", {"paused": "since monday"}), ("", {})):
        queue.note("", "paused", value)
        assert queue.exchange(pushed=[entry("1", segment="")]).notes in (None, remarks)


def test_to_read_a_remark_opens_no_segment(queue: Driven) -> None:
    queue.exchange(finished=queue.exchange(1, pushed=[entry("1")]).leases)
    queue.note(NEXT_DAY, "depth", "")
    queue.run(queue.queue.notes(NEXT_DAY))
    assert queue.counts().done == 1


def test_to_write_a_remark_opens_the_segment(queue: Driven) -> None:
    queue.exchange(finished=queue.exchange(1, pushed=[entry("1")]).leases)
    queue.note(NEXT_DAY, "depth", "12")
    assert queue.counts().done == 0


def test_all_is_there_for_the_next_program(queue: Driven) -> None:
    queue.push(entry("1"), entry("2", due=50.0), entry("failed", 1))
    queue.exchange(failed=[(queue.lease()[0], "no")])
    queue.note(DAY, "depth", "12")
    queue.restart()
    assert (queue.noted(DAY, "depth"), queue.reasons()) == ("12", [("failed", "no")])
    assert queue.push(entry("1")).duplicates == 1
    assert queue.bodies(now=49.0) + queue.bodies(now=50.0) == ["1", "2"]
