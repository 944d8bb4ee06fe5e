"""What a paced queue of one machine does besides what every paced queue does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.driving import Driven, entry
from tileharvest.errors import QueueError
from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import Gap
from tileharvest.politeness.host import Host, Limits, Process, stand
from tileharvest.politeness.pace import Pace
from tileharvest.queue.pace import Amount
from tileharvest.queue.paced import Paced
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tileharvest.queue.paced import LocalQueue
    from tileharvest.queue.port import Changes, Exchange

HOST = "map.example.net"


def not_open(inside: LocalQueue, folder: Path | None) -> Driven:
    return Driven(lambda: Paced(inside, folder, "world", clock=lambda: 0.0, random=lambda: 0.5))


def paced(inside: LocalQueue, folder: Path | None) -> Driven:
    """Filled, and open at time 0."""
    driven = not_open(inside, folder).open()
    driven.push(*(entry(str(number)) for number in range(9)))
    return driven


@pytest.fixture
def alone() -> Iterator[Driven]:
    """Without a folder."""
    with paced(SqliteQueue(), None) as queue:
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
    assert starts(alone, 5) == pytest.approx([0.0, 0.2, 0.4])
    assert alone.exchange().share == 3
    alone.run(alone.queue.rest(HOST, 60.0))
    assert alone.exchange(1, 1.0).held_until == 60.0


def test_the_gap_holds_over_the_end_of_a_process(tmp_path: Path) -> None:
    inside = SqliteQueue()
    with paced(inside, tmp_path) as queue:
        set_pace(queue, 30.0)
        assert starts(queue, 1) == [0.0]
    with paced(inside, tmp_path) as queue:
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


class Spoiling(SqliteQueue):
    """While it leases for the first time, the file of the host becomes something else."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.is_spoilt = False

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        if wanted and not self.is_spoilt:
            self.is_spoilt = True
            self.file.unlink()
            self.file.mkdir()
        return await super().exchange(changes, wanted, now)


def test_what_was_leased_when_the_pace_cannot_be_kept_goes_back_unstarted(tmp_path: Path) -> None:
    file = tmp_path / f"{HOST}.json"
    with paced(Spoiling(file), tmp_path) as queue:
        set_pace(queue, 1.0)
        answer = queue.exchange(1, pushed=[entry("new")])
        assert answer.leases == ()
        assert answer.held_until is not None
        with pytest.raises(QueueError, match=r"Is a directory\); no request was lost"):
            queue.exchange(1, 1.0)
        file.rmdir()
        (lease,) = queue.lease(1, 1.0)
        assert (lease.body, lease.attempt) == (b"0", 1)


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 9)), min_size=1, max_size=6),
    st.integers(1, 12),
)
def test_shares_are_as_equal_as_the_maps_allow_and_use_all_there_is(
    askers: Sequence[tuple[str, int]], total: int
) -> None:
    concurrency = dict(askers)
    processes = [Process(str(place), name, concurrency[name]) for place, (name, _) in enumerate(askers)]
    shares = []
    for own in processes:
        # Of which nobody has been told anything.
        fresh = [Process(one.id, one.map, one.concurrency) for one in processes]
        host = Host(limits=Limits(total, Gap.of(0)), processes=fresh)
        pace = Pace(HOST, own.concurrency)
        alike = Process(own.id, own.map, own.concurrency)
        shares.append(stand(host, alike, pace, in_flight=0, wanted=0, now=0.0).share)
    by_map = {
        name: sum(shares[p] for p, one in enumerate(processes) if one.map == name) for name in concurrency
    }
    assert all(by_map[name] <= concurrency[name] for name in concurrency)
    assert sum(shares) <= total
    for place, share in enumerate(shares):
        # Whoever has less than another by more than one has all that its map allows it.
        most = -(-concurrency[processes[place].map] // sum(p.map == processes[place].map for p in processes))
        assert share >= most - 1 or all(other <= share + 1 for other in shares)


# The queue inside


def test_what_the_queue_inside_offers_besides_is_there(tmp_path: Path) -> None:
    inside = SqliteQueue(tmp_path / "world.sqlite")
    queue = Paced(inside, tmp_path / "hosts", "world", clock=lambda: 0.0, random=lambda: 0.5)
    assert (queue.discard, queue.open_beside) == (inside.discard, inside.open_beside)


def test_a_queue_that_cannot_share_its_pace_is_closed_again(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inside = SqliteQueue()
    with not_open(inside, tmp_path / "file") as queue, pytest.raises(QueueError, match="cannot be written"):
        queue.open()
    with not_open(inside, None) as queue:
        queue.open()


def test_a_queue_that_cannot_be_opened_leaves_no_process_behind(tmp_path: Path) -> None:
    file, hosts = tmp_path / "world.sqlite", tmp_path / "hosts"
    with paced(SqliteQueue(file), hosts), not_open(SqliteQueue(file), hosts) as second:
        with pytest.raises(QueueError, match="another process"):
            second.open()
        assert len(list(hosts.glob("*.alive"))) == 1


# The purse


def test_what_was_spent_beyond_the_grant_is_taken_from_what_is_left(alone: Driven) -> None:
    alone.run(alone.queue.open_purse(Budget(received_bytes=100)))
    assert alone.run(alone.queue.grant(Amount(0, 50), Amount())).is_granted
    assert not alone.run(alone.queue.grant(Amount(0, 21), Amount(0, -30))).is_granted
    assert alone.run(alone.queue.grant(Amount(0, 20), Amount())).is_granted


def test_more_than_was_granted_cannot_be_returned(alone: Driven) -> None:
    alone.run(alone.queue.open_purse(Budget(requests=5)))
    assert alone.run(alone.queue.grant(Amount(2), Amount(9))).is_granted
    assert not alone.run(alone.queue.grant(Amount(6), Amount(9))).is_granted
    assert alone.run(alone.queue.grant(Amount(5), Amount())).is_granted
