"""What stands where requests are in Redis, and is none: it is put aside, and the others go on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.scheduler.driving import LEASE, entry

if TYPE_CHECKING:
    from tests.queue.redis_maps import RedisMap


GARBAGE = [
    b"",
    b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    b'{"v":1,"url":"http://example.net/"}',
    b"\xc1" * 9,
    b"\x00",
    b"\x00\x00\xa1a\xa1b",
    b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\x01\xa1a\xa1b",
    b"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00\x01\xa1a\xa1b",
    b"\x00\xca\x3f\xc0\x00\x00\xa1a\xa1b",
    b"\x00\x01\x93\x01\x02\x03\xa1b",
    b"\xdf\xff\xff\xff\xff",
    b"\x91" * 100,
]
"""Nothing, a pickle, another program's JSON, no MessagePack; records that lack something, whose attempt is 0,
whose priority is no number, whose attempt is a fraction, whose segment is a list; and what claims to
be huge, or has far too much."""


def dead(world: RedisMap) -> list[tuple[str, bytes]]:
    found = [letter.partition(b"\n") for letter in world.ask("LRANGE", "dead", 0, -1)]
    assert world.worker().counts().dead == len(found)
    return [(head.decode().partition(" ")[2], content) for head, _, content in found]


@pytest.mark.parametrize("content", GARBAGE)
@pytest.mark.parametrize("place", ["waiting", "leased", "delayed"])
def test_what_is_no_request_is_buried_and_the_others_go_on(
    world: RedisMap, caplog: pytest.LogCaptureFixture, content: bytes, place: str
) -> None:
    worker = world.worker()
    worker.push(entry("1"), entry("2", due=50.0 if place == "delayed" else None), entry("3"))
    if place == "leased":
        worker.lease(3)
    world.ask("HSET", "requests", "000000000000002", content)
    with caplog.at_level(logging.ERROR):
        assert worker.bodies(9, now=100.0) == ["1", "3"]
    assert dead(world) == [("unreadable", content)]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert worker.counts(100.0).left == 2


def test_an_id_without_a_request_is_buried(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"), entry("2"))
    world.ask("HDEL", "requests", "000000000000001")
    world.ask("ZADD", "plus", 1, "what is this?")
    assert worker.bodies(2) == ["2"]
    assert dead(world) == [("this? missing", b""), ("missing", b"")] or len(dead(world)) == 2


def test_what_is_buried_is_made_up_for(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(*(entry(str(number)) for number in range(20)))
    for number in range(1, 16):
        world.ask("HSET", "requests", f"{number:015}", b"x")
    assert worker.bodies(3) == ["15", "16", "17"]


def test_who_asks_how_far_the_work_is_buries_nothing(world: RedisMap) -> None:
    worker = world.joined()
    worker.exchange(pushed=[entry("1", due=50.0), entry("2")], is_seeded=True)
    world.ask("HSET", "requests", "000000000000001", b"x")
    assert worker.run(worker.queue.ending()) == "goes on"
    assert world.ask("HGET", "requests", "000000000000001") == b"x"
    assert dead(world) == []
    assert worker.bodies(9, now=50.0) == ["2"]
    assert dead(world) == [("unreadable", b"x")]


def test_who_is_answered_again_buries_nothing(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(entry("1"), entry("2"))
    worker.lease(2)
    world.ask("HSET", "requests", "000000000000001", b"x")
    worker.queue._number -= 1
    assert worker.bodies(2, now=1.0) == ["2"]
    assert dead(world) == []
    assert worker.counts(now=LEASE).leased == 0
    assert dead(world) == [("unreadable", b"x")]


@pytest.mark.parametrize("content", GARBAGE)
def test_what_is_no_failure_is_left_out(world: RedisMap, content: bytes) -> None:
    worker = world.worker()
    worker.exchange(failed=[(worker.exchange(1, pushed=[entry("1")]).leases[0], "no")])
    world.ask("HSET", "failures", "000000000000009", content)
    world.ask("HSET", "failures", "nonsense", content)
    assert worker.reasons() == [("1", "no")]


def test_many_failures_are_listed_oldest_first(world: RedisMap) -> None:
    worker = world.worker()
    wanted = [f"{number}" for number in range(600)]
    leases = worker.exchange(600, pushed=[entry(body) for body in wanted]).leases
    worker.exchange(failed=[(lease, "no") for lease in leases])
    assert [body for body, _ in worker.reasons()] == wanted


def test_a_lease_of_what_is_no_request_any_more_ends(world: RedisMap) -> None:
    worker = world.worker()
    leases = worker.exchange(3, pushed=[entry(body) for body in "123"]).leases
    for number in (1, 2, 3):
        world.ask("HSET", "requests", f"{number:015}", b"x")
    answer = worker.exchange(finished=leases[:1], failed=[(leases[1], "no")], returned=leases[2:])
    assert answer.refused == 0
    assert (worker.counts().left, worker.counts().failed, len(dead(world))) == (0, 0, 2)


@pytest.mark.parametrize("content", GARBAGE)
def test_what_is_known_of_no_worker_does_no_harm(world: RedisMap, content: bytes) -> None:
    first = world.joined()
    first.exchange(pushed=[entry("1")], is_seeded=True)
    world.ask("HSET", f"client:{first.queue._client}", "facts", content)
    second = world.worker()
    assert len(second.run(second.queue.workers())) == 1
    assert second.lease(9)
    first.exchange(9)
    assert len(second.run(second.queue.workers())) == 2


def test_strange_texts_do_no_harm(world: RedisMap) -> None:
    worker = world.worker()
    strange = "\udc80 'ä' \n\0 {x}:%s"
    worker.push(entry("1", segment=strange))
    (lease,) = worker.lease()
    worker.exchange(failed=[(lease, strange)])
    assert worker.reasons() == [("1", strange.replace("\udc80", "\\udc80"))]
    worker.note(strange, strange, strange)
    told = strange.replace("\udc80", "\\udc80")
    assert worker.run(worker.queue.notes(strange)) == {told: told}


@pytest.mark.parametrize("priority", [2**53 + 1, 2**80, -(2**80)])
def test_a_priority_beyond_all_bounds_counts_as_the_greatest(world: RedisMap, priority: int) -> None:
    worker = world.worker()
    worker.push(entry("normal"), entry("far", priority))
    leases = worker.lease(2)
    assert {lease.body: lease.priority for lease in leases}[b"far"] in (2**53, -(2**53))
    assert [lease.body for lease in leases].index(b"far") == (priority < 0)
