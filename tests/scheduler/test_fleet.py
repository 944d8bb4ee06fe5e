"""With whom a worker may work, and how it waits for work and for the end."""

from __future__ import annotations

import asyncio
import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from tests.middlewares.making import run_jumping
from tileharvest.errors import QueueError
from tileharvest.queue.port import SILENT, Failure, Worker
from tileharvest.queue.sentences import WORKER_ENDED
from tileharvest.scheduler.fleet import Fleet, refuse_company

DAY, NEXT_DAY = "2026-11-20", "2026-11-21"


def worker(host: str = "", *, pid: int = 7, segment: str = DAY, machine: str = "here") -> Worker:
    return Worker(
        host=host or socket.gethostname(),
        machine=machine,
        pid=pid,
        segment=segment,
        started=1.0,
        heartbeat=100.0,
        leased=0,
        share=None,
        finished=0,
        rate=0.0,
    )


OWN = worker(pid=os.getpid(), segment="")


def refusal(*others: Worker, segment: str = DAY, fresh: bool = False, local: bool = False) -> str:
    with pytest.raises(QueueError) as caught:
        refuse_company([OWN, *others], segment, is_fresh=fresh, is_history_local=local)
    return str(caught.value)


def may_work(*others: Worker, segment: str = DAY, fresh: bool = False, local: bool = False) -> bool:
    refuse_company([OWN, *others], segment, is_fresh=fresh, is_history_local=local)
    return True


def test_workers_of_one_segment_work_together() -> None:
    assert may_work(worker("east"), worker("west", machine="there", segment=""))


def test_a_worker_for_another_segment_is_refused_and_told_who_works() -> None:
    said = refusal(worker("east", pid=12), segment=NEXT_DAY)
    assert "2026-11-20 is still under way at east (pid 12)" in said
    assert "run again for 2026-11-21" in said
    assert "that was killed is forgotten when its leases expire" in said


def test_a_fresh_start_beside_others_is_refused() -> None:
    assert "cannot start afresh while others work on it: east (pid 7)" in refusal(worker("east"), fresh=True)
    assert may_work(fresh=True)


def test_a_history_in_a_file_is_refused_beside_another_machine_with_what_to_do() -> None:
    said = refusal(worker("east", machine="there"), local=True)
    assert "east (pid 7)" in said
    assert "DATABASE_URL=postgresql+psycopg://" in said


def test_a_history_in_a_file_is_shared_on_one_machine() -> None:
    assert may_work(worker("a-container", machine="here"), local=True)


def test_a_worker_that_was_killed_in_the_same_container_is_no_other() -> None:
    assert may_work(worker(pid=os.getpid(), segment=DAY), segment=NEXT_DAY, fresh=True)


def fleet(
    shared: Any = None,
    *,
    has_joined: bool = False,
    stay: bool = False,
    failed: Any = None,
    looked: Any = None,
) -> Fleet:
    """Returns a fleet whose worker has nothing to do."""
    scheduling: Any = SimpleNamespace(
        queue=shared, shared=shared, segment_of=lambda: DAY, stay=stay, lease_seconds=SILENT
    )
    worker: Any = SimpleNamespace(is_empty=True, holds_some=False, look_again=looked)
    writer: Any = None
    listener: Any = SimpleNamespace(wake=lambda: None, end=failed)
    return Fleet(scheduling, worker, writer, listener, is_first=True, has_joined=has_joined)


def test_a_fleet_of_one_begins_and_ends_everything() -> None:
    async def test() -> None:
        one = fleet(has_joined=True)
        one.start()
        assert one.is_first
        assert await one.may_end()
        await one.ended()
        assert not one.is_ended
        # Nobody would tell it.
        assert not one._awaits_end
        await one.stop()

    asyncio.run(test())


def test_a_spider_that_stays_looks_for_what_is_pushed_every_half_second() -> None:
    async def test() -> None:
        looks: list[float] = []
        loop = asyncio.get_running_loop()
        one = fleet(stay=True, looked=lambda: looks.append(loop.time()))
        began = loop.time()
        one.start()
        await asyncio.sleep(1.1)
        await one.stop()
        assert [round(look - began, 3) for look in looks] == [0.5, 1.0]
        await asyncio.sleep(5)
        assert len(looks) == 2

    run_jumping(test())


def test_a_mistake_while_the_end_of_the_work_is_waited_for_ends_the_crawl_instead_of_hanging_it() -> None:
    async def mistake() -> None:
        raise TypeError(f"a mistake at {DAY}")

    async def failure() -> QueueError:
        failed = asyncio.get_running_loop().create_future()
        shared: Any = SimpleNamespace(ending=mistake)
        one = fleet(shared, has_joined=True, failed=failed.set_result)
        one.start()
        found: QueueError = await asyncio.wait_for(failed, 5)
        await one.stop()
        return found

    assert f"a mistake at {DAY}" in str(asyncio.run(failure()))


GIVEN_UP = Failure(1, b"body", DAY, 0, 3, WORKER_ENDED.format(attempts=3), 0.0)


@pytest.mark.parametrize(
    ("workers", "pushed"),
    [
        ([OWN, worker("later")], [b"body"]),
        ([worker("earlier"), OWN], []),
    ],
    ids=["the first of all", "another was first"],
)
def test_of_several_idle_workers_one_offers_what_was_given_up(
    workers: list[Worker], pushed: list[bytes]
) -> None:
    async def test() -> None:
        one = fleet(SimpleNamespace(workers=answering(workers), failures=answering([GIVEN_UP])))
        found: list[bytes] = []
        one._worker = SimpleNamespace(  # type: ignore[assignment]
            push=lambda entry: found.append(entry.body), take_up=lambda number: None
        )
        await one._offer_given_up()
        assert found == pushed

    asyncio.run(test())


def test_a_mistake_while_what_was_given_up_is_offered_ends_the_crawl() -> None:
    async def test() -> None:
        ends: list[Any] = []
        await fleet(SimpleNamespace(workers=None), failed=ends.append)._offer_given_up()
        (error,) = ends
        assert isinstance(error, QueueError)

    asyncio.run(test())


def answering(answer: Any) -> Any:
    async def answered() -> Any:
        return answer

    return answered
