"""What workers on a queue in Redis know of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.scheduler.driving import DAY, entry

if TYPE_CHECKING:
    from tests.queue.redis_maps import RedisMap


def test_workers_are_told_with_what_they_do(world: RedisMap) -> None:
    first, second = world.joined(), world.worker()
    leases = first.exchange(4, pushed=[entry(str(number)) for number in range(8)], share=3).leases
    first.exchange(finished=leases[:2], failed=[(leases[2], "no")], share=3, now=5.0)
    one, other = sorted(second.run(second.queue.workers()), key=lambda worker: worker.segment, reverse=True)
    assert (one.segment, one.share, one.leased, one.finished, one.rate) == (DAY, 3, 1, 3, 3 / 5)
    assert (other.segment, other.share, other.leased, other.finished, other.rate) == ("", None, 0, 0, 0.0)
    assert one.machine == other.machine


def test_the_rate_is_that_of_the_last_seconds(world: RedisMap) -> None:
    worker = world.worker()
    worker.push(*(entry(str(number)) for number in range(99)))
    for now, number in ((1.0, 3), (5.0, 7), (7.0, 4), (10.0, 16), (11.0, 1)):
        worker.exchange(finished=worker.lease(number, now), now=now)
    (found,) = worker.run(worker.queue.workers())
    assert (found.finished, found.rate) == (31, (7 + 4) / 5)


def test_the_oldest_lease_is_as_old_as_when_it_was_handed_out(world: RedisMap) -> None:
    worker = world.worker()
    assert worker.counts().oldest_lease is None
    worker.push(entry("1"), entry("2"))
    (lease,) = worker.lease(now=10.0)
    worker.lease(now=20.0)
    worker.extend(lease, now=60.0)
    assert worker.counts(60.0).oldest_lease == 50.0
