"""What every queue keeps to."""

from tests.queue.driven import DAY, NEXT_DAY, Driven, entry
from tileharvest.queue.port import PUSHED, End, Entry

# Order


def test_the_highest_priority_of_all_that_waits_is_first(queue: Driven) -> None:
    queue.tell(*(entry(str(priority), priority) for priority in (-5, 0, 2, -1, 9, 3, -2)))
    assert queue.bodies(2) == ["9", "3"]
    queue.tell(entry("5", 5))
    assert queue.bodies() == ["5", "2", "0", "-1", "-2", "-5"]


def test_equals_are_first_in_first_out(queue: Driven) -> None:
    wanted = [str(number) for number in range(20)]
    queue.tell(*map(entry, wanted[:10]))
    queue.tell(*map(entry, wanted[10:]))
    assert queue.bodies(7) + queue.bodies(3) + queue.bodies() == wanted


def test_equals_are_taken_from_the_slot_with_the_fewest_under_way(queue: Driven) -> None:
    queue.tell(*(entry(f"a{number}", slot="a") for number in range(6)))
    queue.lease(2)
    queue.tell(*(entry(f"b{number}", slot="b") for number in range(4)))
    assert queue.bodies(5) == ["b0", "b1", "a2", "b2", "a3"]
    # A higher priority goes before a slot with fewer under way.
    queue.tell(entry("a9", 1, slot="a"), entry("0", slot="0"))
    assert queue.bodies(1) == ["a9"]
    assert queue.bodies() == ["0", "b3", "a4", "a5"]


def test_a_lease_has_the_values_of_its_request(queue: Driven) -> None:
    queue.tell(Entry(b"\x00\xff", DAY, None, -(2**40), slot="höst/1"))
    (lease,) = queue.lease()
    assert (lease.body, lease.priority, lease.slot) == (b"\x00\xff", -(2**40), "höst/1")
    assert lease.attempt == 1


# Delays


def test_a_delayed_request_is_offered_from_its_time_on_in_its_place(queue: Driven) -> None:
    answer = queue.tell(entry("first", due=10.0), entry("second"), entry("third", due=30.0))
    assert (answer.next_due, answer.has_more) == (10.0, True)
    assert queue.counts().delayed == 2
    assert queue.bodies(now=9.9) == ["second"]
    answer = queue.tell(entry("fourth"), now=10.0)
    assert (answer.next_due, answer.has_more) == (30.0, True)
    assert queue.bodies(now=10.0) == ["first", "fourth"]
    assert not queue.tell(now=10.0).has_more


# What was seen


def test_a_request_is_accepted_once_in_its_segment(queue: Driven) -> None:
    assert queue.tell(entry("1"), entry("2"), entry("1")).duplicates == [2]
    for lease in queue.lease():
        queue.end(lease)
    assert queue.tell(entry("3"), entry("2")).duplicates == [1]
    assert queue.tell(entry("1", segment=NEXT_DAY)).duplicates == []
    # A request without fingerprint is never a duplicate.
    assert queue.tell(*(entry("4", fingerprint=None) for _ in range(2))).duplicates == []
    assert queue.bodies() == ["3", "1", "4", "4"]
    assert queue.counts().seen == 3


# Leases


def test_a_leased_request_is_leased_to_nobody_else(queue: Driven) -> None:
    queue.tell(entry("1"), entry("2"))
    assert queue.bodies(1) == ["1"]
    assert queue.bodies() == ["2"]
    assert queue.bodies() == []
    assert queue.counts().leased == 2


def test_a_lease_ends_once(queue: Driven) -> None:
    queue.tell(entry("1"))
    (lease,) = queue.lease()
    queue.end(lease)
    queue.end(lease)
    queue.end(lease, "fail", "too late")
    assert queue.counts().done == 1
    assert queue.failed == []


def test_a_released_request_waits_in_its_place_and_its_lease_is_over(queue: Driven) -> None:
    queue.tell(entry("1"), entry("2"))
    (old,) = queue.lease(1)
    queue.end(old, "release")
    (lease,) = queue.lease(1)
    assert (lease.body, lease.attempt) == (b"1", 2)
    queue.tell(ends=[End(old.id, old.attempt, "finish"), End(old.id, old.attempt, "release")])
    assert queue.counts().leased == 1


# Failures


def test_a_failed_request_is_listed_with_its_reason(queue: Driven) -> None:
    queue.tell(entry("1", 3), entry("2"))
    one, two = queue.lease()
    queue.end(one, "fail", "HTTP 500", now=7.0)
    queue.end(two, "fail", "schön", now=8.0)
    first, second = queue.run(queue.queue.failures())
    assert (first.body, first.reason, first.attempts, first.priority) == (b"1", "HTTP 500", 1, 3)
    assert (first.segment, first.failed, second.reason) == (DAY, 7.0, "schön")
    assert queue.counts().failed == 2
    assert queue.bodies() == []


def test_a_failure_that_is_taken_up_goes_before_what_waits_or_is_dropped(queue: Driven) -> None:
    queue.tell(entry("1"), entry("2"), entry("3"))
    for lease in queue.lease(2):
        queue.end(lease, "fail", "HTTP 500")
    first, second = queue.run(queue.queue.failures())
    assert queue.run(queue.queue.take_up([first.id], None)) == 1
    assert queue.run(queue.queue.take_up([second.id, 999], DAY)) == 1
    assert queue.failed == []
    assert queue.bodies() == ["2", "3"]


def test_a_failure_that_is_taken_up_into_another_segment_counts_as_seen_there(queue: Driven) -> None:
    queue.tell(entry("1"), entry("2"))
    for lease in queue.lease():
        queue.end(lease, "fail", "HTTP 500")
    queue.tell(entry("2", segment=NEXT_DAY))
    ids = [one.id for one in queue.run(queue.queue.failures())]
    assert queue.run(queue.queue.take_up(ids, NEXT_DAY)) == 2
    assert queue.tell(entry("1", segment=NEXT_DAY)).duplicates == [0]
    assert queue.bodies() == ["1", "2"]


def test_what_is_unseen_fails_and_is_new_again(queue: Driven) -> None:
    queue.tell(entry("1"))
    queue.end(*queue.lease(), "unsee", "no such callback")
    assert queue.failed == [("1", "no such callback")]
    assert queue.tell(entry("1")).duplicates == []


# Segments and notes


def test_forgetting_a_segment_drops_all_but_its_failures(queue: Driven) -> None:
    later = [entry("delayed", due=9.0), entry("leased", 9), entry("failed", 8), entry("waits")]
    queue.tell(*later, entry("other", segment=NEXT_DAY), entry("by hand", segment=PUSHED))
    _, failed = queue.lease(2)
    queue.end(failed, "fail", "HTTP 500")
    queue.run(queue.queue.forget(DAY))
    assert queue.tell(entry("waits")).duplicates == []
    queue.held.clear()
    assert queue.bodies(now=99.0) == ["other", "by hand", "waits"]
    assert len(queue.failed) == 1


def test_segments_are_listed_in_the_order_in_which_they_were_opened(queue: Driven) -> None:
    for now, day in enumerate(("2026-11-14", "2026-11-10", PUSHED, NEXT_DAY)):
        queue.tell(entry("1", segment=day), now=float(now))
    queue.run(queue.queue.forget("2026-11-10"))
    assert [one for one in queue.run(queue.queue.segments()) if one != DAY] == [
        "2026-11-14",
        PUSHED,
        NEXT_DAY,
    ]


def test_notes_are_read_by_others_until_they_are_dropped(queue: Driven) -> None:
    queue.run(queue.queue.note("paused", "seit 10:00 – ja"))
    with queue.beside() as other:
        assert other.run(other.queue.notes()) == {"paused": "seit 10:00 – ja"}
        other.run(other.queue.note("paused", ""))
    assert queue.run(queue.queue.notes()) == {}


# Beside a worker


def test_a_command_pushes_and_counts_beside_the_worker(queue: Driven) -> None:
    queue.tell(entry("1"), entry("2", -1))
    queue.lease(1)
    with queue.beside() as other:
        other.run(other.queue.exchange([entry("3", 1, segment=PUSHED)], (), 0, (), 0.0))
        counts = other.counts()
        assert counts.pending == {"plus": 1, "normal": 0, "minus": 1}
        assert (counts.leased, counts.left) == (1, 3)
    assert queue.bodies() == ["3", "2"]


def test_a_queue_that_was_discarded_is_empty(queue: Driven) -> None:
    queue.tell(entry("1"), entry("2"))
    queue.run(queue.queue.close())
    queue.run(queue.queue.discard())
    assert queue.open().tell(entry("1")).duplicates == []
    assert queue.counts().left == 1
