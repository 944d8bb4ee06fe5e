"""What was seen, in Redis: how large its record is, that it does not err, and how it ends."""

from __future__ import annotations

from hashlib import sha1
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.queue.redis_maps import RedisMap
from tests.scheduler.driving import DAY, entry
from tests.servers.redis import redis_server
from tileharvest.queue.redis.calls import KEPT

if TYPE_CHECKING:
    from collections.abc import Iterator

NEXT_DAY = "2021-02-14"
RECORD = f"fingerprints:{DAY}"


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisMap]:
    with redis_server() as server, RedisMap(server) as one:
        yield one


@pytest.fixture
def world(shared: RedisMap) -> Iterator[RedisMap]:
    with RedisMap(shared.server) as one:
        yield one


# Its size


@pytest.mark.parametrize(("expected", "number"), [(20_000, 20_000), (1_000, 1_000), (1_000, 4_000)])
def test_a_request_needs_14_bytes(world: RedisMap, expected: int, number: int) -> None:
    worker = world.worker(expected=expected)
    for first in range(0, number, 1000):
        worker.push(*(entry("", fingerprint=b"%d" % one) for one in range(first, first + 1000)))
    # The allocator rounds up.
    assert 10 <= world.server.ask("MEMORY", "USAGE", world.key(RECORD), "SAMPLES", 0) / number <= 14


def test_a_new_segment_is_laid_out_for_a_quarter_more_than_the_last_had(world: RedisMap) -> None:
    worker = world.worker(expected=100_000)
    worker.push(*(entry(str(number)) for number in range(1600)))
    worker.push(entry("1", segment=NEXT_DAY))
    assert world.ask("HGET", f"segment:{DAY}", "buckets") == b"3125"
    assert world.ask("HGET", f"segment:{NEXT_DAY}", "buckets") == b"63"


# What is seen


def test_many_more_than_were_expected_are_each_seen_once(world: RedisMap) -> None:
    worker = world.worker(expected=1)
    for _ in range(2):
        answers = [
            worker.push(*(entry("", fingerprint=b"%d" % one) for one in range(first, first + 1000)))
            for first in range(0, 8000, 1000)
        ]
    assert [answer.duplicates for answer in answers] == [1000] * 8
    assert worker.counts().seen == 8000


def test_no_bucket_is_much_larger_than_256_requests_however_many_come(world: RedisMap) -> None:
    worker = world.worker(expected=1)
    for first in range(0, 8000, 1000):
        worker.push(*(entry("", fingerprint=b"%d" % one) for one in range(first, first + 1000)))
    assert world.ask("HGET", f"segment:{DAY}", "buckets") == b"16 256"
    # By Poisson's distribution a bucket of 256 on the average has more than 340 once in a million.
    assert max(map(len, world.ask("HVALS", RECORD))) <= 340 * 10


def test_the_end_of_one_and_the_beginning_of_the_next_are_not_taken_for_a_seen_one(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"))
    digest = sha1(b"2").digest()
    bucket = int.from_bytes(digest[:4]) % int(world.ask("HGET", f"segment:{DAY}", "buckets"))
    world.ask("HSET", RECORD, f"1:{bucket}", b"12345" + digest[4:12] + digest[14:16] + b"67890")
    assert worker.push(entry("2")).duplicates == 0
    assert worker.push(entry("2")).duplicates == 1


def test_there_is_no_filter_and_so_no_false_alarm(world: RedisMap) -> None:
    answer = world.worker().push(entry("1"), entry("2"), entry("3"), entry("1"))
    assert (answer.duplicates, answer.false_alarms) == (1, 0)


def test_what_another_worker_has_pushed_is_seen(world: RedisMap) -> None:
    world.worker().push(entry("1"))
    assert world.worker().push(entry("1")).duplicates == 1


def test_to_forget_a_segment_spares_what_was_seen_in_others(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"), entry("1", segment=NEXT_DAY), entry("2", due=5.0, segment=NEXT_DAY))
    worker.note(NEXT_DAY, "audit", "done")
    worker.forget(DAY)
    assert worker.push(entry("1", segment=NEXT_DAY), entry("2", segment=NEXT_DAY)).duplicates == 2
    assert worker.noted(NEXT_DAY, "audit") == "done"
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


def test_workers_who_expect_different_numbers_share_a_record(world: RedisMap) -> None:
    few, many = world.worker(expected=10), world.worker(expected=5000)
    few.push(entry("1"))
    assert many.push(entry("1"), entry("2")).duplicates == 1
    assert few.push(entry("2"), entry("3")).duplicates == 1
    assert many.counts().seen == 3


def test_a_worker_learns_that_a_segment_began_again(world: RedisMap) -> None:
    few, many = world.worker(expected=10), world.worker(expected=5000)
    few.push(entry("1"))
    many.forget(DAY)
    assert many.push(entry("1")).duplicates == 0
    assert few.push(entry("1")).duplicates == 1


def test_a_segment_of_far_too_many_requests_does_not_keep_the_next_from_beginning(world: RedisMap) -> None:
    world.worker().push(entry("1"))
    world.ask("HSET", "numbers", "seen", 10**12)
    assert world.worker().push(entry("1", segment=NEXT_DAY)).duplicates == 0


# How long it stays


def test_what_was_seen_is_dropped_when_nothing_was_pushed_for_long(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"))
    assert KEPT - 60 < world.ask("TTL", RECORD) <= KEPT
    world.ask("EXPIRE", RECORD, 500)
    worker.push(entry("2"))
    assert KEPT - 60 < world.ask("TTL", RECORD) <= KEPT


def test_every_key_of_a_segment_ends_by_time_and_what_waits_does_not(world: RedisMap) -> None:
    worker = world.joined()
    worker.push(*(entry(str(number), number - 2) for number in range(6)), entry("later", due=9.0))
    worker.exchange(failed=[(worker.lease()[0], "no")])
    worker.exchange(finished=worker.exchange(2, pushed=[entry("1")]).leases[:1])
    worker.note(DAY, "depth", "12")
    worker.note("", "paused", "since monday")
    ending = {key.split(":", 2)[2] for key in world.all_keys() if world.server.ask("TTL", key) >= 0}
    of_segment = {f"segment:{DAY}", RECORD}
    assert ending == of_segment | {f"client:{worker.queue._client}"}
    assert "segment:" in {key.split(":", 2)[2] for key in world.all_keys()}


def test_what_is_finished_after_its_segment_has_ended_leaves_nothing_for_ever(world: RedisMap) -> None:
    worker = world.worker()
    leases = worker.exchange(1, pushed=[entry("1")]).leases
    world.ask("DEL", f"segment:{DAY}")
    worker.exchange(finished=leases)
    assert world.ask("TTL", f"segment:{DAY}") > 0


def test_when_the_record_is_gone_everything_is_new_and_nothing_waiting_is_lost(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"), entry("2"))
    world.ask("DEL", RECORD)
    world.ask("DEL", f"segment:{DAY}")
    assert worker.push(entry("1")).duplicates == 0
    assert worker.counts().seen == 1
    assert worker.bodies() == ["1", "2", "1"]
