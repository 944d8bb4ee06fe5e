"""What the queue in a file does beyond the contract: processes beside the worker, atomicity, speed."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.scheduler.driving import DAY, Driven, entry, pending
from tileharvest.errors import QueueError
from tileharvest.queue.port import Changes
from tileharvest.queue.sqlite.file import connect
from tileharvest.queue.sqlite.queue import SqliteQueue
from tileharvest.queue.sqlite.statements import LOGGED, Statements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


OPTIONS: dict[str, Any] = {
    "max_attempts": 5,
    "lease_seconds": 100.0,
    "minus_share": 16,
    "expected": 50_000,
    "error_rate": 1e-6,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the queue is; its folder does not exist yet."""
    return tmp_path / "queues" / "world.sqlite"


@pytest.fixture
def queue(file: Path) -> Iterator[Driven]:
    with Driven(lambda: SqliteQueue(file)).open() as opened:
        yield opened


@pytest.fixture
def beside(queue: Driven, file: Path) -> Iterator[Driven]:
    """The same queue, opened by a command while the worker runs."""
    with Driven(lambda: SqliteQueue(file)) as command:
        command.run(command.queue.open_beside())
        yield command


def execute(file: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


# Beside the worker


def test_a_command_pushes_beside_the_worker(queue: Driven, beside: Driven) -> None:
    queue.push(entry("1"))
    answer = beside.push(entry("1"), entry("2"))
    assert (answer.duplicates, answer.leases) == (1, [])
    assert queue.bodies() == ["1", "2"]


def test_a_command_counts_beside_the_worker(queue: Driven, beside: Driven) -> None:
    queue.exchange(1, pushed=[entry("1"), entry("2", 1)])
    counts = beside.counts()
    assert (pending(beside), counts.leased, counts.seen) == ((0, 1, 0), 1, 2)
    assert beside.exchange().leased_elsewhere == 1


def test_a_command_sees_to_failures_beside_the_worker(queue: Driven, beside: Driven) -> None:
    for body in "12":
        queue.exchange(failed=[(queue.exchange(1, pushed=[entry(body)]).leases[0], "no")])
    first, _ = beside.failures()
    beside.exchange(pushed=[entry("1", fingerprint=None)], taken_up=[first.id])
    assert beside.clear_failures() == 1
    assert queue.failures() == []
    assert queue.bodies() == ["1"]


def test_a_command_does_not_take_leases_back(queue: Driven, file: Path) -> None:
    leases = queue.exchange(1, pushed=[entry("1")]).leases
    command = SqliteQueue(file)
    queue.run(command.open_beside())
    queue.run(command.close())
    assert queue.exchange(finished=leases).refused == 0


def test_the_worker_reads_remarks_again_only_after_a_transaction(
    queue: Driven, beside: Driven, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written_long_ago(seconds: float) -> None:
        os.utime(file.with_name(f"{file.name}-wal"), (1000.5 + seconds, 1000.5 + seconds))

    queue.run(queue.queue.note(DAY, "order", "pause"))
    written_long_ago(0.0)
    assert queue.run(queue.queue.notes(DAY)) == {"order": "pause"}
    with monkeypatch.context() as patch:
        patch.setattr(Statements, "notes", None)
        assert queue.run(queue.queue.notes(DAY)) == {"order": "pause"}
    beside.run(beside.queue.note(DAY, "order", "stop"))
    assert queue.run(queue.queue.notes(DAY)) == {"order": "stop"}
    # The last transaction was too short ago to tell whether another one came with it.
    beside.run(beside.queue.note(DAY, "order", "rate"))
    written_long_ago(1.0)
    assert queue.run(queue.queue.notes(DAY)) == {"order": "rate"}


def test_remarks_are_not_remembered_by_a_queue_that_is_closed(queue: Driven, file: Path) -> None:
    queue.run(queue.queue.note(DAY, "order", "pause"))
    os.utime(file.with_name(f"{file.name}-wal"), (1000.5, 1000.5))
    queue.run(queue.queue.notes(DAY))
    queue.run(queue.queue.close())
    with pytest.raises(QueueError):
        queue.run(queue.queue.notes(DAY))


def test_a_command_may_be_first(file: Path) -> None:
    with Driven(lambda: SqliteQueue(file)) as command:
        command.run(command.queue.open_beside())
        command.push(entry("1"))
    with Driven(lambda: SqliteQueue(file)).open() as queue:
        assert queue.bodies() == ["1"]


def test_only_the_worker_leases(beside: Driven) -> None:
    with pytest.raises(RuntimeError, match="only the worker"):
        beside.lease()


def test_a_second_worker_is_told_that_another_has_the_queue(queue: Driven, file: Path) -> None:
    with pytest.raises(QueueError) as caught:
        queue.run(SqliteQueue(file).open(0.0))
    assert str(caught.value) == (
        "map 'world' is being harvested by another process; nothing was changed; let it end, or stop it with"
        " tileharvest stop world, then run again"
    )


def test_when_the_worker_has_closed_another_can_begin(queue: Driven, file: Path) -> None:
    queue.stop()
    queue.stop()
    with Driven(lambda: SqliteQueue(file)).open() as other:
        assert other.bodies() == []


def test_a_queue_that_is_not_open_says_so(file: Path) -> None:
    with Driven(lambda: SqliteQueue(file)) as closed, pytest.raises(QueueError, match="not open"):
        closed.counts()


def test_a_queue_that_is_open_cannot_be_opened(queue: Driven) -> None:
    with pytest.raises(RuntimeError, match="open already"):
        queue.open()


def test_many_processes_may_create_the_queue_at_once(file: Path) -> None:
    async def create() -> list[int]:
        commands = [SqliteQueue(file) for _ in range(8)]
        await asyncio.gather(*(command.open_beside() for command in commands))
        changes = [Changes(pushed=[entry("1")]) for _ in commands]
        answers = await asyncio.gather(
            *(command.exchange(change, 0, 0.0) for command, change in zip(commands, changes, strict=True))
        )
        await asyncio.gather(*(command.close() for command in commands))
        return [answer.duplicates for answer in answers]

    assert sum(asyncio.run(create())) == 7


# One step


@pytest.mark.parametrize("refused", ["DELETE ON requests", "UPDATE ON segments", "UPDATE ON requests"])
def test_a_step_that_fails_half_way_has_not_happened(queue: Driven, file: Path, refused: str) -> None:
    """The statements of finishing, of counting what is done, and of leasing; all come after the push."""
    queue.exchange(failed=[(queue.exchange(1, pushed=[entry("failed")]).leases[0], "no")])
    (failure,) = queue.failures()
    parent = queue.exchange(1, pushed=[entry("parent")]).leases
    before = (queue.counts(), queue.failures())
    step = {"pushed": [entry("child"), entry("parent")], "taken_up": [failure.id], "finished": parent}
    execute(file, f"CREATE TRIGGER refusal BEFORE {refused} BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(QueueError, match=r"failed \(no\); no request in it was lost"):
        queue.exchange(1, **step)
    assert (queue.counts(), queue.failures()) == before
    execute(file, "DROP TRIGGER refusal")
    assert [lease.body for lease in queue.exchange(1, **step).leases] == [b"child"]


def test_the_event_loop_does_not_wait_for_another_process(queue: Driven, file: Path) -> None:
    async def exchange_while_locked() -> bool:
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            exchange = asyncio.ensure_future(queue.queue.exchange(Changes(pushed=[entry("1")]), 1, 0.0))
            # The loop turns, while the exchange cannot end.
            for _ in range(100):
                await asyncio.sleep(0)
            waited = not exchange.done()
            other.execute("ROLLBACK")
            return waited and len((await exchange).leases) == 1

    assert queue.run(exchange_while_locked())


def test_a_cancelled_call_leaves_the_queue_in_order(queue: Driven) -> None:
    async def cancel() -> None:
        exchange = asyncio.ensure_future(queue.queue.exchange(Changes(pushed=[entry("1")]), 0, 0.0))
        await asyncio.sleep(0)
        exchange.cancel()
        await asyncio.wait([exchange])

    queue.run(cancel())
    queue.push(entry("1"))
    assert queue.bodies() == ["1"]


def test_a_cancelled_opening_is_undone_by_closing(file: Path) -> None:
    async def cancel() -> None:
        opening = asyncio.ensure_future(queue.queue.open(0.0))
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])

    with Driven(lambda: SqliteQueue(file)) as queue:
        queue.run(cancel())
        queue.stop()
        assert queue.open().bodies() == []


def test_a_forgotten_segment_leaves_no_rows(queue: Driven, file: Path) -> None:
    queue.exchange(1, pushed=[entry("1"), entry("2"), entry("2"), entry("3", due=9.0)])
    queue.note(DAY, "depth", "12")
    queue.forget(DAY)
    for table in ("segments", "remarks", "seen", "surely_new", "requests"):
        assert execute(file, f"SELECT * FROM {table}") == []


# Cost


def steps_of_an_exchange(file: Path, waiting: int) -> int:
    """SQLite's own count of the steps that 50 requests cost, where so many wait, are delayed and leased."""
    with closing(connect(file)) as connection:
        statements = Statements(connection, **OPTIONS)
        with statements.transaction():
            for due in (None, 1e9):
                entries = (entry(f"{due} {n}", n % 7 - 3, due=due) for n in range(waiting))
                statements.push(list(entries), 0.0)
            # The filter is filled when the first is pushed, once in the life of a worker.
            statements.begin_work(0.0)
            statements.push([entry("first")], 0.0)
            connection.execute("UPDATE requests SET until = 1e9 WHERE due IS NULL AND id % 2")
        steps = 0

        def count_step() -> None:
            nonlocal steps
            steps += 1

        connection.set_progress_handler(count_step, 1)
        with statements.transaction():
            statements.settle(5.0)
            new = [entry(f"new {n}" if n % 2 else f"None {n}", n % 3 - 1) for n in range(50)]
            assert statements.push(new, 5.0) == (25, 0)
            leases = statements.lease_next(50, 5.0)
            assert statements.extend(leases, 10.0) == len(leases) == 50
            assert statements.finish(leases[:40]) == 40
            assert statements.fail([(lease, "no") for lease in leases[40:45]], 5.0) == 5
            assert statements.give_back(leases[45:]) == 5
            assert statements.next_due() == 1e9
    return steps


def test_an_exchange_costs_the_same_however_much_waits(tmp_path: Path) -> None:
    few = steps_of_an_exchange(tmp_path / "few.sqlite", 200)
    many = steps_of_an_exchange(tmp_path / "many.sqlite", 20_000)
    assert many < 1.05 * few


def test_what_is_surely_new_is_looked_up_nowhere(file: Path) -> None:
    with closing(connect(file)) as connection:
        statements = Statements(connection, **OPTIONS)
        with statements.transaction():
            statements.begin_work(0.0)
            statements.push([entry("first")], 0.0)
        made: list[str] = []
        connection.set_trace_callback(made.append)
        with statements.transaction():
            statements.push([entry(str(number)) for number in range(500)], 0.0)
        assert [one for one in made if "seen" in one] == []
        assert len([one for one in made if "INTO surely_new" in one]) == 1
        assert statements.counts(0.0).seen == 501


def test_a_false_alarm_of_the_filter_is_looked_up_and_queued(file: Path) -> None:
    with Driven(lambda: SqliteQueue(file, expected=1000, error_rate=0.5)).open() as queue:
        answers = [queue.push(entry(f"{number}")) for number in range(2000)]
        assert sum(answer.duplicates for answer in answers) == 0
        assert 0 < sum(answer.false_alarms for answer in answers) < 1000
        assert len(queue.bodies(3000)) == queue.counts().seen == 2000


def test_a_push_that_failed_is_no_duplicate_when_it_is_made_again(queue: Driven, file: Path) -> None:
    queue.push(entry("0"))
    execute(file, "CREATE TRIGGER refusal BEFORE INSERT ON requests BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(QueueError):
        queue.push(entry("1"))
    execute(file, "DROP TRIGGER refusal")
    assert queue.push(entry("1")).duplicates == 0
    assert queue.bodies() == ["0", "1"]


def test_requests_of_many_segments_at_once_are_each_made_once(queue: Driven) -> None:
    entries = [entry(body, segment=segment) for body in "12" for segment in "abcdefgh"]
    assert queue.push(*entries, *entries[:4]).duplicates == 4
    assert queue.push(*entries).duplicates == 16


def test_what_was_surely_new_is_found_when_it_is_looked_up(queue: Driven) -> None:
    for number in range(3 * LOGGED):
        queue.push(entry(f"{number}a"), entry(f"{number}b"))
    assert queue.counts().seen == 6 * LOGGED
    queue.push(entry("new"))
    answer = queue.push(*(entry(f"{number}a") for number in range(3 * LOGGED)), entry("new"))
    assert answer.duplicates == 3 * LOGGED + 1
    assert queue.counts().seen == 6 * LOGGED + 1


def test_a_queue_in_memory_is_kept_as_long_as_its_object() -> None:
    with Driven(SqliteQueue).open() as queue:
        queue.push(entry("1"))
        queue.stop()
        assert queue.open().bodies() == ["1"]
        queue.stop()
        queue.run(queue.queue.discard())
        assert queue.open().push(entry("1")).duplicates == 0


def test_the_log_and_the_index_go_when_the_last_has_closed(queue: Driven, file: Path) -> None:
    queue.push(entry("1"))
    queue.stop()
    assert {path.name for path in file.parent.iterdir()} == {"world.sqlite", "locks"}


def test_space_is_used_again(queue: Driven, file: Path) -> None:
    def sizes() -> Iterator[int]:
        for _ in range(6):
            bodies = [entry(bytes(500), fingerprint=None)] * 200
            queue.exchange(finished=queue.exchange(200, pushed=bodies).leases)
            yield int(str(execute(file, "PRAGMA page_count")[0][0]))

    first, *_, last = sizes()
    assert last <= first + 5


@pytest.mark.parametrize(
    "options",
    [{"max_attempts": 0}, {"lease_seconds": 0.0}, {"minus_share": 1}, {"expected": 0}, {"error_rate": 1.0}],
)
def test_options_that_would_offer_nothing_are_refused(file: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"attempts|minus_share|filter|error rate"):
        SqliteQueue(file, **options)
