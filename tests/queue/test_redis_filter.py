"""The filter of what was seen, in Redis: its bits are compared with those that pybloom-live sets."""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pybloom_live import BloomFilter

from tests.queue.redis_maps import RedisMap
from tests.scheduler.driving import DAY, entry
from tests.servers.redis import redis_server
from tileharvest.errors import QueueError
from tileharvest.queue.redis.filter import FilterShape

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


def pybloom(capacity: int, error_rate: float, *fingerprints: bytes) -> BloomFilter:
    bloom = BloomFilter(capacity, error_rate)
    for fingerprint in fingerprints:
        bloom.add(fingerprint.hex())
    return bloom


def set_bits(bits: object) -> list[int]:
    return [number for number, bit in enumerate(bits) if bit]


def redis_bits(content: bytes) -> list[int]:
    """Redis' first bit is a byte's highest."""
    return set_bits(int(digit) for byte in content for digit in f"{byte:08b}")


# Bits


@given(fingerprint=st.binary(max_size=40), capacity=st.integers(1, 3000), power=st.integers(1, 12))
def test_the_bits_are_those_of_pybloom(fingerprint: bytes, capacity: int, power: int) -> None:
    error_rate = 10.0**-power
    shape = FilterShape.fitting(capacity, error_rate)
    places = struct.unpack(f"<{shape.filters[0][0]}I", shape.places(fingerprint))
    assert list(places) == set_bits(pybloom(capacity, error_rate, fingerprint).bitarray)


@pytest.mark.parametrize(("capacity", "error_rate"), [(1, 0.5), (1000, 1e-9), (54_321, 1e-6), (10**6, 0.3)])
def test_the_shape_is_that_of_pybloom(capacity: int, error_rate: float) -> None:
    bloom, shape = pybloom(capacity, error_rate), FilterShape.fitting(capacity, error_rate)
    assert shape.text == f"{bloom.num_slices} {bloom.bits_per_slice} {capacity}"


def test_the_bitmap_in_redis_is_that_of_pybloom(world: RedisMap) -> None:
    prints = [b"%d" % number for number in range(700)]
    worker = world.worker(expected=1000, error_rate=1e-9)
    for first in range(0, 700, 100):
        worker.push(*(entry(b"", fingerprint=one) for one in prints[first : first + 100]))
    bloom = pybloom(1000, 1e-9, *prints)
    assert redis_bits(world.ask("GET", FILTER)) == set_bits(bloom.bitarray)
    assert len(world.ask("GET", FILTER)) == bloom.bitarray.nbytes


def test_ten_million_requests_need_5_4_bytes_each() -> None:
    ((hashes, bits, _),) = FilterShape.fitting(10_000_000, 1e-9).filters
    assert hashes * bits / 8 / 10_000_000 == pytest.approx(5.39, abs=0.01)


def test_redis_keeps_no_more_than_the_bitmap(world: RedisMap) -> None:
    world.worker(expected=200_000).push(entry("1"))
    memory = world.server.ask("MEMORY", "USAGE", world.key(FILTER))
    # The allocator rounds up, by a quarter at most.
    assert 5.39 <= memory / 200_000 <= 5.39 * 1.25


def test_what_no_bitmap_of_redis_can_hold_is_refused() -> None:
    most = 99_575_000
    assert FilterShape.fitting(most, 1e-9).capacity == most
    with pytest.raises(ValueError, match=r"too large for Redis: 9957\d{4} are possible"):
        FilterShape.fitting(10**8, 1e-9)


@pytest.mark.parametrize(("expected", "error_rate"), [(0, 1e-9), (-1, 1e-9), (1, 0.0), (1, 1.0), (1, -1.0)])
def test_a_filter_that_can_do_nothing_is_refused(expected: int, error_rate: float) -> None:
    with pytest.raises(ValueError, match=r"full at once|no probability"):
        FilterShape.fitting(expected, error_rate)


# In place of the contract's tests of exact records


def test_the_filter_says_the_last_word_so_there_is_no_false_alarm(world: RedisMap) -> None:
    answer = world.worker().push(entry("1"), entry("2", maybe_seen=False), entry("3"), entry("1"))
    assert (answer.duplicates, answer.false_alarms) == (1, 0)


def test_what_another_worker_has_pushed_is_seen_whatever_is_thought_here(world: RedisMap) -> None:
    world.worker().push(entry("1"))
    assert world.worker().push(entry("1", maybe_seen=False)).duplicates == 1


def test_no_fingerprints_are_told(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"))
    assert worker.seen() == []


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
    wanted = FilterShape.fitting(1250, 1e-9).text
    assert world.ask("HGET", "filters", NEXT_DAY) == wanted.encode()


def test_a_segment_of_far_too_many_requests_does_not_keep_the_next_from_beginning(world: RedisMap) -> None:
    world.worker().push(entry("1"))
    world.ask("HSET", "accepted", DAY, 10**12)
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


def test_each_filter_of_the_bitmap_is_one_of_pybloom(world: RedisMap) -> None:
    prints = [b"%d" % number for number in range(30)]
    worker = world.worker(expected=10)
    for one in prints:
        worker.push(entry("", fingerprint=one))
    assert world.ask("HGET", "filters", DAY) == b"30 15 10;31 15 10;32 29 20"
    blooms = [
        pybloom(10, 1e-9, *prints[:10]),
        pybloom(10, 1.001 * 2**-31, *prints[10:20]),
        pybloom(20, 1.001 * 2**-32, *prints[20:]),
    ]
    bits = [bit for bloom in blooms for bit in bloom.bitarray]
    assert redis_bits(world.ask("GET", FILTER)) == set_bits(bits)


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
            "the filter of segment '2021-02-13' is full: 10 were seen, and it was made for 10; added room for"
            " 10 more. Nothing is lost; a higher SEEN_EXPECTED saves time and memory"
        )
    ]


def test_a_filter_that_cannot_grow_stops_the_crawl_and_loses_nothing(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"))
    world.ask("HSET", "filters", DAY, f"1 {2**32 - 3} 1")
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
    worker = world.worker(kept_seconds=1000)
    worker.push(entry("1"))
    assert 990 < world.ask("TTL", FILTER) <= 1000
    world.ask("EXPIRE", FILTER, 500)
    worker.push(entry("2"))
    assert 990 < world.ask("TTL", FILTER) <= 1000


def test_its_end_is_not_moved_with_every_push(world: RedisMap) -> None:
    worker = world.worker(kept_seconds=1000)
    worker.push(entry("1"))
    world.ask("EXPIRE", FILTER, 950)
    worker.push(entry("2"))
    assert world.ask("TTL", FILTER) <= 950


def test_only_filters_and_what_is_known_of_clients_end_by_time(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(*(entry(str(number), number - 2) for number in range(6)), entry("later", due=9.0))
    worker.exchange(failed=[(worker.lease()[0], "no")])
    worker.exchange(2)
    worker.note(DAY, "depth", "12")
    ending = {key.split(":")[2] for key in world.all_keys() if world.server.ask("TTL", key) >= 0}
    assert ending == {"seen", "client"}


def test_when_a_filter_is_gone_everything_is_new_and_nothing_waiting_is_lost(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"), entry("2"))
    world.ask("DEL", FILTER)
    assert worker.push(entry("1")).duplicates == 0
    assert worker.counts().seen == 1
    assert worker.bodies() == ["1", "2", "1"]


@pytest.mark.parametrize("damage", ["", "nonsense", "30 -5 10", "30 1438", "30 1438 9;x", "1 4294967297 9"])
def test_a_filter_of_unknown_shape_begins_anew(world: RedisMap, damage: str) -> None:
    world.worker().push(entry("1"))
    world.ask("HSET", "filters", DAY, damage)
    answer = world.worker().push(entry("1"), entry("1"))
    assert answer.duplicates == 1


def test_a_filter_may_grow_to_what_a_worker_knows_of_a_forgotten_one(world: RedisMap) -> None:
    first, second = world.worker(expected=2), world.worker(expected=2)
    first.push(*(entry(str(number)) for number in range(3)))
    second.forget(DAY)
    second.push(entry("1"), entry("2"))
    # Its filter has grown in the mind of the first worker, and does so now in Redis.
    assert first.push(entry("2"), entry("3")).duplicates == 1
