"""What is particular to a queue in Redis: its workers come, go, freeze and are killed; so does its server."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from tests.queue.driven import DAY, Driven, entry
from tests.servers.redis import RedisServer, queue_on, redis_server
from tileharvest.errors import QueueError
from tileharvest.queue.port import End
from tileharvest.queue.redis.queue import prefix_of, script_of

NAMES = count()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture
def worker(server: RedisServer) -> Iterator[Callable[..., Driven]]:
    """Makes a worker of the test's queue, which is gone after 30 s of silence."""
    name, made = f"world-{next(NAMES)}", list[Driven]()

    def make(now: float = 0.0, **options: Any) -> Driven:
        made.append(Driven(lambda: queue_on(server, name, **options)))
        return made[-1].open(now=now)

    yield make
    for one in made:
        one.__exit__()


def beat(*workers: Driven, now: float) -> None:
    for one in workers:
        one.run(one.queue._run("reap", now, *one.queue._alive()))


# Workers


def test_a_worker_takes_no_more_than_its_part_of_what_waits(worker: Callable[..., Driven]) -> None:
    one, two = worker(), worker()
    one.tell(*(entry(str(number)) for number in range(5)))
    assert (one.bodies(), one.bodies()) == (["0", "1", "2"], [])
    assert two.bodies() == ["3", "4"]
    assert (one.tell().elsewhere, two.tell().elsewhere) == (2, 3)
    assert one.counts().leased == 5


def test_a_worker_that_tells_that_it_is_alive_keeps_its_leases(worker: Callable[..., Driven]) -> None:
    one, two = worker(), worker()
    one.tell(entry("1"))
    one.lease()
    for now in range(0, 200, 20):
        beat(one, two, now=now)
    assert two.bodies(now=200.0) == []


def test_a_sign_of_life_that_comes_after_the_sign_off_is_not_heard(worker: Callable[..., Driven]) -> None:
    one, two = worker(), worker()
    late = {"keys": [one.queue._prefix], "args": [*one.queue._head(0.0), *one.queue._alive()]}
    one.run(one.queue.close())
    two.run(two.queue._link.attempt(lambda client: client.register_script(script_of("reap"))(**late)))
    assert two.run(two.queue._pipe(("zcard", two.queue._key("workers")))) == [1]


def test_a_server_that_was_away_costs_nobody_a_lease(worker: Callable[..., Driven]) -> None:
    one, two = worker(), worker()
    one.tell(entry("1"))
    one.lease()
    worker(now=500.0)
    beat(two, one, two, now=500.0)
    assert one.counts().leased == 1


@pytest.mark.parametrize("is_leased_anew", [False, True])
def test_a_finish_of_a_worker_that_had_passed_for_gone_counts_unless_another_has_a_newer_lease(
    worker: Callable[..., Driven], is_leased_anew: bool
) -> None:
    one, two = worker(), worker()
    one.tell(entry("1"))
    (lease,) = one.lease()
    beat(two, now=29.0)
    beat(two, now=31.0)
    newer = two.lease(now=31.0) if is_leased_anew else []
    one.end(lease, now=31.0)
    counts = two.counts()
    assert (counts.leased, counts.done) == ((1, 0) if is_leased_anew else (0, 1))
    for again in newer:
        two.end(again, now=31.0)
    assert two.counts().done == 1
    assert two.bodies(now=31.0) == []


def test_a_request_that_lost_its_workers_too_often_waits_last_and_is_then_given_up_unless_it_was_finished(
    worker: Callable[..., Driven],
) -> None:
    one, two = worker(max_attempts=1), worker(max_attempts=1)
    one.tell(entry("1"), entry("2"), entry("3", -5))
    one.lease(2)
    beat(two, now=29.0)
    beat(two, now=31.0)
    other, first, _ = two.lease(now=31.0)
    assert (other.body, first.body) == (b"3", b"1")
    three = worker(max_attempts=1, now=35.0)
    beat(three, now=60.0)
    beat(three, now=62.0)
    assert sorted(three.failed) == [
        (body, "its worker ended 2 times while it was under way") for body in ("1", "2")
    ]
    two.end(first, now=62.0)
    assert [body for body, _ in three.failed] == ["2"]


def test_workers_are_listed_while_they_are_alive(server: RedisServer) -> None:
    with Driven(lambda: queue_on(server, "listed", server_clock=True)) as one:
        one.open(now=time.time())
        with one.beside() as command:
            (found,) = command.run(command.queue.workers())
            assert (found.segment, found.pid) == (DAY, os.getpid())
            assert 0 <= found.looked_at - found.started < 60
            one.run(one.queue.close())
            assert command.run(command.queue.workers()) == []


# Its server


def test_a_queue_that_was_emptied_in_the_middle_of_a_crawl_is_noticed(server: RedisServer) -> None:
    with Driven(lambda: queue_on(server, "emptied")) as one:
        one.open().tell(entry("1"))
        server.ask("DEL", prefix_of("emptied") + b"queue")
        said = "the queue 'emptied' at unix:.* was emptied while a crawl worked on it"
        calls = (
            lambda: one.tell(entry("2")),
            one.lease,
            one.counts,
            lambda: one.run(one.queue.notes()),
            lambda: beat(one, now=0.0),
        )
        for call in calls:
            with pytest.raises(QueueError, match=said):
                call()


def test_another_format_is_refused(server: RedisServer) -> None:
    server.ask("HSET", prefix_of("older") + b"queue", "format", "3")
    with (
        Driven(lambda: queue_on(server, "older")) as one,
        pytest.raises(QueueError, match=r"not of this version of TileHarvest .its format is 3, this one's 7"),
    ):
        one.open()


def test_calls_outlast_a_server_that_is_started_again() -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with redis_server(*options) as server, Driven(lambda: queue_on(server, patience=60.0)) as one:
        one.open().tell(entry("1"), entry("2"))
        one.lease(1)
        (lease,) = one.held.values()
        finish = [End(lease.id, lease.attempt, "finish")]

        async def finish_meanwhile() -> None:
            finishing = asyncio.ensure_future(one.queue.exchange((), finish, 0, (), 0.0))
            await asyncio.wait([finishing], timeout=0.1)
            assert not finishing.done()
            # A thread of the event loop, as the server ends with the thread that has started it.
            await asyncio.gather(finishing, asyncio.to_thread(server.start))

        server.kill()
        one.run(finish_meanwhile())
        assert one.bodies() == ["2"]
        assert one.tell(entry("1")).duplicates == [0]


def test_a_server_that_does_not_come_back_is_told_in_one_line(worker: Callable[..., Driven]) -> None:
    with redis_server() as server, Driven(lambda: queue_on(server, patience=0.2)) as one:
        one.open()
        server.stop()
        with pytest.raises(QueueError, match=r"does not answer .*; no request in it was lost; see that"):
            one.tell(entry("1"))


def test_a_lease_does_not_end_if_what_came_of_it_cannot_be_pushed(
    worker: Callable[..., Driven], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = worker()
    one.tell(entry("parent"))
    (parent,) = one.lease()
    run = one.queue._run

    async def refuse(script: str, *told: Any) -> Any:
        if script == "push":
            raise QueueError("Redis is away")
        return await run(script, *told)

    monkeypatch.setattr(one.queue, "_run", refuse)
    with pytest.raises(QueueError, match="away"):
        one.tell(entry("child"), ends=[End(parent.id, parent.attempt, "finish")])
    assert (one.counts().leased, one.counts().done) == (1, 0)


def test_a_call_whose_answer_was_lost_can_be_made_again(worker: Callable[..., Driven]) -> None:
    """The queue is told everything twice, as if no first answer had come."""
    one = worker()
    one.tell(entry("parent"))
    (parent,) = one.lease()

    async def tell_twice() -> Any:
        end = End(parent.id, parent.attempt, "finish")
        for _ in range(2):
            answer = await one.queue.exchange([entry("child")], [end], 9, (), 0.0)
        return answer

    answer = one.run(tell_twice())
    assert [(lease.body, lease.attempt) for lease in answer.leases] == [(b"child", 1)]
    assert (one.counts().leased, one.counts().done, one.counts().left) == (1, 1, 1)


@pytest.mark.parametrize(
    ("options", "login", "said"),
    [
        (("--requirepass", "horse"), "", "refuses the login .*REDIS_URL or REDIS_PARAMS"),
        (("--requirepass", "horse"), ":donkey@", "refuses the login"),
        (
            ("--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lru"),
            "",
            "may throw requests away .*allkeys-lru.*noeviction",
        ),
    ],
    ids=["no login", "wrong login", "evicting"],
)
def test_a_server_that_cannot_be_used_is_refused_without_a_password(
    options: tuple[str, ...], login: str, said: str
) -> None:
    with redis_server(*options) as server:
        one = Driven(lambda: queue_on(server, url=f"redis://{login}127.0.0.1:{server.port}/0"))
        with one, pytest.raises(QueueError, match=said) as refused:
            one.open()
    assert "donkey" not in str(refused.value)


def test_a_server_that_is_out_of_memory_says_so_and_loses_nothing() -> None:
    with (
        redis_server("--maxmemory-policy", "noeviction") as server,
        Driven(lambda: queue_on(server)) as one,
    ):
        one.open().tell(entry("1"))
        server.ask("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(QueueError, match=r"is out of memory .*give it more"):
            one.tell(entry("2"))
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert one.bodies() == ["1"]
