"""The queues of one computer, compared step by step with the model."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.queue.queue_model import SHARE, ModelQueue
from tests.scheduler.driving import ATTEMPTS, LEASE, Driven
from tileharvest.queue.port import Entry
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.queue.queue_model import Held
    from tileharvest.queue.port import Lease, RequestQueue

OPTIONS = {"max_attempts": ATTEMPTS, "lease_seconds": LEASE, "minus_share": SHARE}
SEGMENTS = ["a", "b"]
Description: TypeAlias = tuple[str, bytes | None, int, float | None, int]
"""Segment, fingerprint, priority, delay in seconds, attempt."""

DESCRIPTIONS = st.tuples(
    st.sampled_from(SEGMENTS),
    st.sampled_from([None, b"1", b"2", b"3", b"4", b"5", b"6"]),
    st.integers(-2, 2),
    st.sampled_from([None, None, -5.0, 0.0, 5.0, LEASE]),
    st.integers(1, ATTEMPTS),
)
ENDS = ["finished", "failed", "returned", "cut_off"]
WAYS = st.lists(st.sampled_from([*ENDS, "kept"]), max_size=4)


class QueueMachine(RuleBasedStateMachine):
    """Drives a queue and its model. Ended leases stay in `held`, so that a late worker uses them again."""

    def make(self, folder: Path) -> Callable[[], RequestQueue]:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory()
        self.queue = Driven(self.make(Path(self.folder.name))).open()
        self.model = ModelQueue()
        self.held: list[tuple[Lease, Held]] = []
        self.pushed = 0

    def entries(self, descriptions: list[Description]) -> list[Entry]:
        """Pushes entries with bodies that are all different, and times counted from now."""
        entries = []
        for segment, fingerprint, priority, delay, attempt in descriptions:
            self.pushed += 1
            due = None if delay is None else self.model.now + delay
            body = b"%d" % self.pushed
            entries.append(Entry(body, segment, fingerprint, priority, due, attempt))
        return entries

    @rule(descriptions=st.lists(DESCRIPTIONS, max_size=6), ways=WAYS, wanted=st.integers(0, 6))
    def exchange(self, descriptions: list[Description], ways: list[str], wanted: int) -> None:
        pushed = self.entries(descriptions)
        chosen = list(zip(ways, reversed(self.held), strict=False))
        by_way = {way: [pair for other, pair in chosen if other == way] for way in ENDS}
        changes = {way: [lease for lease, _ in pairs] for way, pairs in by_way.items()}
        changes["failed"] = [(lease, "no") for lease in changes["failed"]]
        answer = self.queue.exchange(wanted, self.model.now, pushed=pushed, **changes)
        assert answer.duplicates == self.model.push(pushed)
        refused = [self.model.end(way, [held for _, held in pairs]) for way, pairs in by_way.items()]
        assert answer.refused == sum(refused)
        self.compare_leases(list(answer.leases), self.model.lease(wanted))

    def compare_leases(self, leases: list[Lease], expected: list[Held]) -> None:
        assert [(lease.body, lease.attempt) for lease in leases] == [
            (held.request.entry.body, held.attempt) for held in expected
        ]
        self.held += zip(leases, expected, strict=True)

    @rule(number=st.integers(1, 4))
    def extend(self, number: int) -> None:
        pairs = self.held[-number:]
        held = self.queue.extend(*(lease for lease, _ in pairs), now=self.model.now)
        assert held == self.model.extend(held for _, held in pairs)

    @rule(seconds=st.sampled_from([1.0, 5.0, 40.0, LEASE]))
    def pass_time(self, seconds: float) -> None:
        self.model.pass_time(seconds)

    @rule()
    def restart(self) -> None:
        self.queue.restart(self.model.now)
        self.model.restart()

    @rule(segment=st.sampled_from(SEGMENTS))
    def forget(self, segment: str) -> None:
        self.queue.forget(segment)
        self.model.forget(segment)

    @rule(segment=st.sampled_from(SEGMENTS), text=st.sampled_from(["x", "y"]))
    def note(self, segment: str, text: str) -> None:
        assert self.queue.noted(segment, "key") == self.model.remarks.get((segment, "key"))
        self.queue.note(segment, "key", text)
        self.model.open_segment(segment)
        self.model.remarks[segment, "key"] = text

    @precondition(lambda self: self.model.failures)
    @rule(description=DESCRIPTIONS)
    def take_up_the_oldest_failure(self, description: Description) -> None:
        pushed = self.entries([description])
        oldest = self.queue.failures()[0].id
        self.queue.exchange(now=self.model.now, pushed=pushed, taken_up=[oldest])
        self.model.push(pushed)
        del self.model.failures[0]

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        counts = self.queue.counts(self.model.now)
        waiting = sum(counts.pending.values())
        assert (waiting, counts.delayed, counts.leased, counts.done, counts.seen) == self.model.counts()

    @invariant()
    def failures_are_those_of_the_model(self) -> None:
        failures = [(f.body, f.segment, f.attempts, f.failed) for f in self.queue.failures()]
        assert failures == self.model.failures

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.queue.close()
            self.folder.cleanup()


class MemoryMachine(QueueMachine):
    def make(self, folder: Path) -> Callable[[], RequestQueue]:
        return cache(lambda: SqliteQueue(**OPTIONS))


class SqliteMachine(QueueMachine):
    def make(self, folder: Path) -> Callable[[], RequestQueue]:
        return lambda: SqliteQueue(folder / "queue.sqlite", **OPTIONS)

    @rule()
    def restart(self) -> None:
        super().restart()
        # Offers are counted by the worker, and this is another one.
        self.model.offers = 0


TestMemoryQueue = MemoryMachine.TestCase
TestSqliteQueue = SqliteMachine.TestCase
TestMemoryQueue.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSqliteQueue.settings = settings(TestMemoryQueue.settings, max_examples=25)
