"""What a polite queue of one machine does besides what every polite queue does."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from tests.queue.test_locks import locks_on
from tests.scheduler.driving import Driven, QueueAtOnce, entry
from tileharvest.errors import QueueError
from tileharvest.history.costs import Traffic
from tileharvest.maps.rates import Gap
from tileharvest.politeness.rate_limit import Pace
from tileharvest.queue.polite_queue import PoliteQueue
from tileharvest.queue.shared_states import StateFile
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tileharvest.queue.port import Changes, Exchange, RequestQueue

HOST = "map.example.net"


def not_open(inside: RequestQueue, folder: Path | None) -> Driven:
    def make() -> PoliteQueue:
        hosts = StateFile(folder)
        return PoliteQueue(inside, hosts, "world", Traffic(), clock=lambda: 0.0, random=lambda: 0.5)

    return Driven(make)


def polite(inside: RequestQueue, folder: Path | None) -> Driven:
    """Filled, and open at time 0."""
    driven = not_open(inside, folder).open()
    driven.push(*(entry(str(number)) for number in range(9)))
    return driven


@pytest.fixture
def alone() -> Iterator[Driven]:
    """Hosts without a folder."""
    with polite(QueueAtOnce(), None) as queue:
        yield queue


def set_pace(queue: Driven, gap: float, **limits: Any) -> None:
    queue.run(queue.queue.set_pace(Pace(HOST, 5, Gap.of(gap), **limits)))


def starts(queue: Driven, wanted: int, now: float = 0.0) -> list[float]:
    return [lease.start for lease in queue.lease(wanted, now)]


# The pace


def test_without_a_pace_nothing_is_held_up_whoever_rests(alone: Driven) -> None:
    alone.run(alone.queue.rest(HOST, 60.0))
    answer = alone.exchange(5)
    assert [lease.start for lease in answer.leases] == [0.0] * 5
    assert (answer.held_until, answer.rests_until, answer.share) == (None, None, None)


def test_a_map_that_knows_of_no_others_keeps_its_pace(alone: Driven) -> None:
    set_pace(alone, 0.2, host_concurrency=3)
    assert starts(alone, 5) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])
    assert alone.exchange().share == 3
    alone.run(alone.queue.rest(HOST, 60.0))
    assert alone.exchange(1, 1.0).held_until == 60.0


def test_the_gap_holds_over_the_end_of_a_process(tmp_path: Path) -> None:
    inside = QueueAtOnce()
    with polite(inside, tmp_path) as queue:
        set_pace(queue, 30.0)
        assert starts(queue, 1) == [0.0]
    with polite(inside, tmp_path) as queue:
        set_pace(queue, 30.0)
        assert starts(queue, 1, 20.0) == []
        assert starts(queue, 1, 29.5) == [30.0]


def test_what_was_held_up_before_it_was_closed_is_not_when_it_is_open_again(alone: Driven) -> None:
    set_pace(alone, 30.0)
    assert len(starts(alone, 1)) == 1
    assert alone.exchange(1).held_until is not None
    alone.stop()
    alone.open()
    assert alone.exchange().held_until is None


def test_starts_for_which_the_queue_has_no_request_stay_free() -> None:
    with not_open(QueueAtOnce(), None).open() as queue:
        set_pace(queue, 1.0)
        # Both entries are one request, so one of the two starts is not used.
        answer = queue.exchange(5, pushed=[entry("1"), entry("1")])
        assert [lease.start for lease in answer.leases] == [0.0]
        assert not queue.exchange(5, pushed=[entry("1")]).leases
        assert [lease.start for lease in queue.exchange(5, pushed=[entry("2")]).leases] == [1.0]


class Counted(StateFile):
    """Counts its steps."""

    steps = 0

    async def change(self, *arguments: Any, **options: Any) -> Any:
        self.steps += 1
        return await super().change(*arguments, **options)


def test_a_map_alone_at_its_host_takes_its_starts_with_the_step_that_allows_them() -> None:
    hosts = Counted()
    inside = QueueAtOnce()
    driven = Driven(
        lambda: PoliteQueue(inside, hosts, "world", Traffic(), clock=lambda: 0.0, random=lambda: 0.5)
    )
    with driven.open() as queue:
        queue.push(*(entry(str(number)) for number in range(9)))
        set_pace(queue, 1.0)
        assert starts(queue, 2) == [0.0, 1.0]
        before = hosts.steps
        assert starts(queue, 2) == [2.0, 3.0]
        assert hosts.steps == before + 1


class Spoiling(QueueAtOnce):
    """While it leases for the first time, the file of the hosts becomes something else."""

    def __init__(self, spoil: Callable[[], None]) -> None:
        super().__init__()
        self.spoil = spoil
        self.is_spoilt = False

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        if wanted and not self.is_spoilt:
            self.is_spoilt = True
            self.spoil()
        return await super().exchange(changes, wanted, now)


def test_what_was_leased_when_the_pace_cannot_be_kept_goes_back_unstarted(tmp_path: Path) -> None:
    file = tmp_path / "hosts.sqlite"
    with sqlite3.connect(file, isolation_level=None) as other:

        def hold() -> None:
            other.execute("BEGIN EXCLUSIVE")

        inside = Spoiling(hold)
        hosts = StateFile(tmp_path, patience=0.0)
        driven = Driven(
            lambda: PoliteQueue(inside, hosts, "world", Traffic(), clock=lambda: 0.0, random=lambda: 0.5)
        )
        with driven.open() as queue:
            queue.push(*(entry(str(number)) for number in range(9)))
            set_pace(queue, 1.0)
            answer = queue.exchange(2, pushed=[entry("new")])
            assert answer.leases == ()
            assert answer.held_until is not None
            with pytest.raises(QueueError, match=r"another process holds .* no request was lost"):
                queue.exchange(1, 1.0)
            other.execute("ROLLBACK")
            (lease,) = queue.lease(1, 1.0)
            assert (lease.body, lease.attempt) == (b"0", 1)


# The queue inside


def test_the_queue_inside_is_thrown_away(tmp_path: Path) -> None:
    file = tmp_path / "world.sqlite"
    with polite(SqliteQueue(file), None) as queue:
        queue.stop()
        queue.run(queue.queue.discard())
        assert not file.exists()


def test_a_queue_that_cannot_share_its_pace_is_closed_again(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inside = QueueAtOnce()
    with not_open(inside, tmp_path / "file") as queue, pytest.raises(QueueError, match="cannot be written"):
        queue.open()
    with not_open(inside, None) as queue:
        queue.open()


def test_a_queue_that_cannot_be_opened_leaves_no_process_behind(tmp_path: Path) -> None:
    file, hosts = tmp_path / "world.sqlite", tmp_path / "hosts"
    with polite(SqliteQueue(file), hosts), not_open(SqliteQueue(file), hosts) as second:
        with pytest.raises(QueueError, match="another process"):
            second.open()
        assert locks_on(hosts / "locks") == 1
