"""The filter of what was seen, in Redis: how large it is, how often it errs, how it grows and ends."""

from __future__ import annotations

import logging
from math import log
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.queue.redis_maps import RedisMap
from tests.scheduler.driving import DAY, entry
from tests.servers.redis import redis_server
from tileharvest.errors import QueueError
from tileharvest.queue.redis.calls import KEPT

if TYPE_CHECKING:
    from collections.abc import Iterator

NEXT_DAY = "2021-02-14"
FILTER = f"seen:{DAY}"


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisMap]:
    with redis_server() as server, RedisMap(server) as one:
        yield one


@pytest.fixture
def world(shared: RedisMap) -> Iterator[RedisMap]:
    with RedisMap(shared.server) as one:
        yield one


# Bits


def test_ten_million_requests_need_5_4_bytes_each(world: RedisMap) -> None:
    world.worker(expected=10_000_000).push(entry("1"))
    assert world.ask("STRLEN", FILTER) / 10_000_000 == pytest.approx(5.41, abs=0.01)


def test_redis_keeps_no_more_than_the_bitmap(world: RedisMap) -> None:
    world.worker(expected=200_000).push(entry("1"))
    memory = world.server.ask("MEMORY", "USAGE", world.key(FILTER))
    # The allocator rounds up, by a quarter at most.
    assert 5.41 <= memory / 200_000 <= 5.41 * 1.25


@pytest.mark.parametrize("error_rate", [0.1, 0.01, 0.001])
def test_a_full_filter_errs_as_often_as_was_asked_for(world: RedisMap, error_rate: float) -> None:
    worker = world.worker(expected=5000, error_rate=error_rate)
    for first in range(0, 5000, 1000):
        worker.push(*(entry("", fingerprint=b"%d" % number) for number in range(first, first + 1000)))
    others = [entry("", fingerprint=b"other %d" % number) for number in range(4000)]
    # With all bits of the first filter; those that are new fill another one.
    errors = worker.push(*others).duplicates
    assert errors == pytest.approx(4000 * error_rate, rel=0.6, abs=6)


# In place of the contract's tests of exact records


def test_the_filter_says_the_last_word_so_there_is_no_false_alarm(world: RedisMap) -> None:
    answer = world.worker().push(entry("1"), entry("2"), entry("3"), entry("1"))
    assert (answer.duplicates, answer.false_alarms) == (1, 0)


def test_what_another_worker_has_pushed_is_seen(world: RedisMap) -> None:
    world.worker().push(entry("1"))
    assert world.worker().push(entry("1")).duplicates == 1


def test_to_forget_a_segment_spares_the_filters_of_others(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"), entry("1", segment=NEXT_DAY), entry("2", due=5.0, segment=NEXT_DAY))
    worker.note(NEXT_DAY, "audit", "done")
    worker.forget(DAY)
    assert worker.push(entry("1", segment=NEXT_DAY), entry("2", segment=NEXT_DAY)).duplicates == 2
    assert worker.note(NEXT_DAY, "audit") == "done"
    assert worker.bodies(now=5.0) == ["1", "2"]


@given(prints=st.sets(st.binary(max_size=40), max_size=20))
def test_any_bytes_are_a_fingerprint(shared: RedisMap, prints: set[bytes]) -> None:
    with RedisMap(shared.server) as world:
        worker = world.worker()
        entries = [entry("", fingerprint=one) for one in prints]
        assert worker.push(*entries).duplicates == 0
        assert worker.push(*entries).duplicates == len(prints)
        assert worker.counts().seen == len(prints)


# Shared by workers


def test_workers_who_expect_different_numbers_share_a_filter(world: RedisMap) -> None:
    few, many = world.worker(expected=10), world.worker(expected=5000, error_rate=1e-6)
    few.push(entry("1"))
    assert many.push(entry("1"), entry("2")).duplicates == 1
    assert few.push(entry("2"), entry("3")).duplicates == 1
    assert many.counts().seen == 3


def test_a_worker_learns_that_a_segment_began_again_with_another_filter(world: RedisMap) -> None:
    few, many = world.worker(expected=10), world.worker(expected=5000)
    few.push(entry("1"))
    many.forget(DAY)
    assert many.push(entry("1")).duplicates == 0
    assert few.push(entry("1")).duplicates == 1


def test_a_new_segment_has_room_for_a_quarter_more_than_the_last_had(world: RedisMap) -> None:
    world.worker(expected=10).push(*(entry(str(number)) for number in range(1000)))
    world.worker(expected=10).push(entry("1", segment=NEXT_DAY))
    assert world.ask("HGET", f"segment:{NEXT_DAY}", "filter") == b";30 1250"


def test_a_segment_of_far_too_many_requests_does_not_keep_the_next_from_beginning(world: RedisMap) -> None:
    world.worker().push(entry("1"))
    world.ask("HSET", "numbers", "seen", 10**12)
    assert world.worker().push(entry("1", segment=NEXT_DAY)).duplicates == 0


# Growing


def test_a_filter_grows_before_it_is_too_full(world: RedisMap) -> None:
    worker = world.worker(expected=10)
    prints = [b"%d" % number for number in range(3000)]
    for first in range(0, 3000, 50):
        entries = [entry("", fingerprint=one) for one in prints[first : first + 50]]
        assert worker.push(*entries).duplicates == 0
    assert worker.push(*(entry("", fingerprint=one) for one in prints)).duplicates == 3000


def test_one_push_of_far_too_many_finds_room(world: RedisMap) -> None:
    entries = [entry(str(number)) for number in range(2000)]
    worker = world.worker(expected=10)
    assert worker.push(*entries).duplicates == 0
    assert worker.push(*entries).duplicates == 2000


def test_each_filter_errs_half_as_often_and_has_room_for_as_many_as_all_before(world: RedisMap) -> None:
    worker = world.worker(expected=10)
    for number in range(30):
        worker.push(entry(str(number)))
    assert world.ask("HGET", f"segment:{DAY}", "filter") == b";30 10;31 10;32 20"


def test_another_worker_learns_that_it_has_grown(world: RedisMap) -> None:
    first, second = world.worker(expected=10), world.worker(expected=10)
    second.push(entry("0"))
    first.push(*(entry(str(number)) for number in range(1, 40)))
    assert second.push(*(entry(str(number)) for number in range(41))).duplicates == 40


def test_growing_is_told(world: RedisMap, caplog: pytest.LogCaptureFixture) -> None:
    worker, other = world.worker(expected=10), world.worker(expected=10)
    with caplog.at_level(logging.WARNING):
        for number in range(15):
            worker.push(entry(str(number)))
            other.push(entry(str(number)))
    assert caplog.messages == [
        (
            "the filter of segment '2021-02-13' is full: 11 were seen; added room for 10 more. Nothing is"
            " lost; a higher SEEN_EXPECTED saves time and memory"
        )
    ]


def test_the_next_segment_has_room_for_what_the_last_one_had(world: RedisMap) -> None:
    worker = world.worker(expected=100_000)
    worker.push(*(entry(str(number)) for number in range(1600)))
    worker.push(entry("1", segment=NEXT_DAY))
    assert world.ask("HGET", f"segment:{NEXT_DAY}", "filter") == b";30 2000"


def test_growing_to_what_is_expected_is_not_told(world: RedisMap, caplog: pytest.LogCaptureFixture) -> None:
    worker = world.worker(expected=5000)
    worker.push(entry("1"))
    with caplog.at_level(logging.WARNING):
        worker.push(*(entry(str(number), segment=NEXT_DAY) for number in range(1001)))
    assert world.ask("HGET", f"segment:{NEXT_DAY}", "filter") == b";30 1000;31 1001"
    assert caplog.messages == []


def test_a_filter_that_cannot_grow_stops_the_crawl_and_loses_nothing(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"))
    world.ask("HSET", f"segment:{DAY}", "filter", f"1 {int(2**32 * log(2)) - 1}", "accepted", 2**33)
    with pytest.raises(QueueError, match="cannot be larger than 512 MB: more errors need less"):
        worker.push(entry("2"))
    assert worker.bodies() == ["1"]


# Its last word


def test_a_request_that_the_filter_wrongly_knows_counts_as_seen(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"))
    world.ask("SETRANGE", FILTER, 0, b"\xff" * world.ask("STRLEN", FILTER))
    assert worker.push(entry("2")).duplicates == 1
    assert worker.bodies() == ["1"]


# How long it stays


def test_a_filter_is_dropped_when_nothing_was_pushed_for_long(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"))
    assert KEPT - 60 < world.ask("TTL", FILTER) <= KEPT
    world.ask("EXPIRE", FILTER, 500)
    worker.push(entry("2"))
    assert KEPT - 60 < world.ask("TTL", FILTER) <= KEPT


def test_every_key_of_a_segment_ends_by_time_and_what_waits_does_not(world: RedisMap) -> None:
    worker = world.joined(keeps_doubtful=True)
    worker.push(*(entry(str(number), number - 2) for number in range(6)), entry("later", due=9.0))
    worker.exchange(failed=[(worker.lease()[0], "no")])
    worker.exchange(finished=worker.exchange(2, pushed=[entry("1")]).leases[:1])
    worker.note(DAY, "depth", "12")
    worker.note("", "paused", "since monday")
    ending = {key.split(":", 2)[2] for key in world.all_keys() if world.server.ask("TTL", key) >= 0}
    of_segment = {f"segment:{DAY}", f"seen:{DAY}", f"doubtful:{DAY}"}
    assert ending == of_segment | {f"client:{worker.queue._client}"}
    assert "segment:" in {key.split(":", 2)[2] for key in world.all_keys()}


def test_what_is_finished_after_its_segment_has_ended_leaves_nothing_for_ever(world: RedisMap) -> None:
    worker = world.worker()
    leases = worker.exchange(1, pushed=[entry("1")]).leases
    world.ask("DEL", f"segment:{DAY}")
    worker.exchange(finished=leases)
    assert world.ask("TTL", f"segment:{DAY}") > 0


def test_when_a_filter_is_gone_everything_is_new_and_nothing_waiting_is_lost(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"), entry("2"))
    world.ask("DEL", FILTER)
    world.ask("DEL", f"segment:{DAY}")
    assert worker.push(entry("1")).duplicates == 0
    assert worker.counts().seen == 1
    assert worker.bodies() == ["1", "2", "1"]
