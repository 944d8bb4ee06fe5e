"""One round: a harvest with disturbances that a seed draws, and the comparison of what it leaves."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.crash.soundness import assert_sound
from tests.end_to_end.clock import Clock
from tests.end_to_end.project import answered
from tests.faults.faults import full_disk
from tests.fleet.workers import await_until
from tests.torture.stages import DAY, DAY_AFTER, misnamed
from tests.torture.whole_history import differences
from tileharvest.history.schema import MASKS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tests.fleet.workers import Worker
    from tests.torture.stages import Left, Undisturbed, Workplace

LEASE: Final = 3
"""The seconds of a lease in a fleet. After so long others get the requests of a killed worker."""
PATIENCE: Final = 240.0
"""The seconds in which a harvest must end after its last disturbance, and in which a moment must come."""
WORKERS: Final = 3
_WRITES: Final = 300
"""The most writes after which the disk is full. A run that makes fewer ends undisturbed."""
_HOURS: Final = 30
"""The most hours by which a clock steps."""

MAY_DIFFER: Final = frozenset(
    {
        "blocks.skips",
        "validators.harvest",
        "validators.missing",
        "validators.packed",
        "validators.seen",
        "validators.there",
        "validators.whole",
        "validators: missing",
    }
)
"""Columns that a disturbed harvest may leave otherwise. docs/reliability.md says why this harms nothing."""
MAY_DIFFER_BY_AUDIT: Final = frozenset(
    {
        "blocks.harvest",
        "blocks.reached",
        *(f"blocks.{name}" for name in MASKS.values()),
        "harvest_counts.tiles",
    }
)
"""Columns that may differ in a harvest with an audit, which draws its tiles anew."""


class DifferenceError(AssertionError):
    """The round has failed. The message has one line for each difference."""


class Moment(NamedTuple):
    """The time of a disturbance, counted in lines of a log."""

    lines: int
    is_own: bool
    """True: counted from the beginning of the newest worker's log. False: counted from now on in the log of
    the site."""


@dataclass(slots=True)
class Outcome:
    """The disturbances of a round, and what they have changed."""

    done: Counter[str] = field(default_factory=Counter)
    """How often each disturbance was made. A kill that came after the end of its process is not counted."""
    different: Counter[str] = field(default_factory=Counter)
    """How many rows differ, by the column in which they may."""
    asked: int = 0
    """The requests that the site has answered."""
    counted: int = 0
    """The requests that the history has counted."""
    undisturbed: int = 0
    """The requests that the site answers to the undisturbed harvest."""
    after: int = 0
    """The requests of the day after."""
    undisturbed_after: int = 0
    """The requests of the day after an undisturbed harvest."""

    @property
    def in_words(self) -> str:
        done = ", ".join(f"{count} {what}" for what, count in sorted(self.done.items()))
        return (
            f"{done or 'nothing came in time'}; asked {self.asked} instead of {self.undisturbed}, counted"
            f" {self.counted}; the day after {self.after} instead of {self.undisturbed_after};"
            f" {dict(+self.different) or 'equal'}"
        )


class Round:
    """One round. It draws from `random` in an order that does not depend on what the processes do, so a
    repeated round has the same disturbances."""

    def __init__(self, workplace: Workplace, undisturbed: Undisturbed, random: Random) -> None:
        self._workplace = workplace
        self._server = workplace.server
        self._undisturbed = undisturbed
        self._random = random
        self._is_fleet = workplace.redis is not None
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Runs the round and returns its outcome. Raises DifferenceError if it fails."""
        place = self._workplace
        place.open(self._undisturbed.before)
        place.fleet.settings |= {"LOG_LEVEL": "INFO", "RETRY_PAUSE": 0.02}
        if self._is_fleet:
            place.fleet.settings["LEASE_SECONDS"] = LEASE
        self._server.clear_log()
        (self._disturb_fleet if self._is_fleet else self._disturb_one)()
        self._compare()
        return self.outcome

    def _disturb_one(self) -> None:
        place, random = self._workplace, self._random
        number = random.randint(2, 12)
        kinds = random.choices(("kill", "full disk", "stepped clock"), (8, 1, 1), k=number)
        moments = [self._draw(number) for _ in kinds]
        numbers = [random.randint(1, _WRITES) for _ in kinds]
        hours = [random.randint(-_HOURS, _HOURS) for _ in kinds]
        for what, moment, write, step in zip(kinds, moments, numbers, hours, strict=True):
            if what == "full disk":
                project = place.fleet.project
                worker = place.start(DAY, environment=full_disk(project.folder, project.data, write))
                place.fleet.await_ends(worker, patience=PATIENCE)
                self.outcome.done[what] += worker.status == 1
                self._look_at(worker)
            else:
                clock = Clock(place.folder / "clock") if what == "stepped clock" else None
                worker = place.start(DAY, environment=clock and clock.environment)
                if not self._await(moment, [worker]):
                    break
                if clock is not None:
                    clock.step(step * 3600)
                    self.outcome.done[what] += 1
                    self._await(moment._replace(is_own=False), [worker])
                self._kill(worker)
            assert_sound(place.fleet.project)
        self._end()

    def _disturb_fleet(self) -> None:
        random = self._random
        kinds = {"kill": 79, "kill of all": 3, "stop": 7, "Redis": 5, "PostgreSQL": 6}
        number = random.randint(4, 14)
        disturbances = random.choices(list(kinds), list(kinds.values()), k=number)
        moments = [self._draw(number) for _ in disturbances]
        picks = [random.randrange(WORKERS) for _ in disturbances]
        workers = [self._workplace.start(DAY) for _ in range(WORKERS)]
        for what, moment, which in zip(disturbances, moments, picks, strict=True):
            if not self._await(moment, workers):
                break
            self._disturb_workers(what, workers, which)
        self._workplace.fleet.await_ends(*workers, patience=PATIENCE)
        self._end()

    def _disturb_workers(self, what: str, workers: list[Worker], which: int) -> None:
        place = self._workplace
        assert place.redis is not None
        assert place.postgresql is not None
        if what == "stop":
            if workers[which].freeze():
                # The time of the leases must pass.
                time.sleep(LEASE + 1)
                workers[which].wake()
                self.outcome.done[what] += 1
        elif what == "Redis":
            place.redis.kill()
            self.outcome.done[what] += 1
            place.redis.start()
        elif what == "PostgreSQL":
            place.postgresql.kill()
            self.outcome.done[what] += 1
            # The new worker begins while the server is away.
            self._replace(workers, which)
            place.postgresql.start()
        elif what == "kill of all":
            for worker in workers:
                self._kill(worker)
            workers[:] = [place.start(DAY) for _ in workers]
        else:
            self._replace(workers, which)

    def _replace(self, workers: list[Worker], which: int) -> None:
        """Kills one worker and starts another one in its place."""
        self._kill(workers[which])
        workers[which] = self._workplace.start(DAY)

    # What is done to them

    def _draw(self, disturbances: int) -> Moment:
        """Returns a moment: two of five are within 12 lines, at the beginning of a run or just after the
        last disturbance; the others are spread over the requests of the harvest."""
        most = max(2, 2 * self._undisturbed.found.requests // (disturbances + 1))
        kind, few, many = self._random.random(), self._random.randint(1, 12), self._random.randint(1, most)
        return Moment(few if kind < 0.4 else many, is_own=kind < 0.2)

    def _await(self, moment: Moment, workers: list[Worker]) -> bool:
        """Waits for the moment. Returns False if all workers have ended before it."""
        so_far, last = answered(self._server), workers[-1]

        def comes() -> bool:
            if moment.is_own:
                return last.log.count("\n") >= moment.lines or last.has_ended
            return answered(self._server) >= so_far + moment.lines

        def comes_or_never() -> bool:
            return comes() or all(worker.has_ended for worker in workers)

        try:
            await_until(comes_or_never, PATIENCE)
        except TimeoutError:
            raise DifferenceError(
                f"nothing happens any more: {[worker.log[-2000:] for worker in workers]}"
            ) from None
        return not all(worker.has_ended for worker in workers)

    def _kill(self, worker: Worker) -> None:
        worker.wake()
        worker.kill()
        self.outcome.done["kill"] += worker.status == -9
        self._look_at(worker)

    def _end(self) -> None:
        """Runs the harvest once more, undisturbed, so that it gets to its end."""
        for worker in self._workplace.fleet.workers:
            self._look_at(worker)
        last = self._workplace.start(DAY)
        self._workplace.fleet.await_ends(last, patience=PATIENCE)
        self._look_at(last)
        if last.status != 0:
            raise DifferenceError(f"the last run ended with {last.status}: {last.log[-3000:]}")

    def _look_at(self, worker: Worker) -> None:
        if "Traceback" in worker.log:
            raise DifferenceError(f"a traceback: {worker.log[worker.log.index('Traceback') - 500 :][:4000]}")

    # What is left

    def _compare(self) -> None:
        place, expected = self._workplace, self._undisturbed
        lines = list(self._server.log())
        found = place.left(lines)
        wrong = self._wrong(found, expected.found)
        self._server.clear_log()
        if self._is_fleet:
            # The next day waits for a killed worker until its leases expire.
            time.sleep(LEASE + 1)
        place.harvest(DAY_AFTER)
        after = place.left(list(self._server.log()))
        # The walk of that day shows that the kills have changed nothing of what its choice rests on.
        ours, theirs = (
            {table: left.history[table] for table in ("versions", "harvests")}
            for left in (after, expected.after)
        )
        wrong += [
            f"on the day after, {one.place}: {one.rows} rows, as {one.example}"
            for one in differences(ours, theirs)
        ]
        outcome = self.outcome
        outcome.asked, outcome.counted = found.requests, _sum_of(found, "requests")
        outcome.undisturbed = expected.found.requests
        outcome.after, outcome.undisturbed_after = after.requests, expected.after.requests
        if wrong:
            raise DifferenceError("\n".join(wrong))

    def _wrong(self, found: Left, expected: Left) -> list[str]:
        is_audited = "audit" in self._workplace.stage.name
        allowed = MAY_DIFFER | (MAY_DIFFER_BY_AUDIT if is_audited else frozenset())
        wrong = []
        for one in differences(found.history, expected.history):
            if one.place in allowed:
                self.outcome.different[one.place] += one.rows
            else:
                wrong.append(f"{one.place}: {one.rows} rows, as {one.example}")
        wrong += wrong_costs(found)
        more = _sum_of(found, "stored_bytes") - _sum_of(expected, "stored_bytes")
        self.outcome.different["harvests.stored_bytes, too high by"] += more
        if found.images != expected.images:
            wrong.append(f"images: {sorted(found.images.items() ^ expected.images.items())[:5]}")
        wrong += [f"image {name} is not what it says" for name in misnamed(found.images)]
        wrong += [f"queue of {name}: {left}" for name, left in self._queues() if left != (0, 0)]
        return wrong

    def _queues(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yields for each map the numbers of requests that are left in its queue and in its failure list."""
        for name, _ in self._workplace.stage.maps:
            if self._is_fleet:
                counts = self._workplace.fleet.counts(name)
                yield name, (counts.left, counts.failed)
            else:
                file = self._workplace.fleet.project.data / "queues" / f"{name}.sqlite"
                with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
                    query = "SELECT count(*), count(CASE state WHEN 'failed' THEN 1 END) FROM requests"
                    every, failed = connection.execute(query).fetchone()
                yield name, (every - failed, failed)


def wrong_costs(found: Left) -> list[str]:
    """Returns the costs of a disturbed harvest that are counted too low. Each result is recorded together
    with the cost of its answer; what a killed process had not recorded is not counted."""
    requests, received = (_sum_of(found, column) for column in ("requests", "received_bytes"))
    results = sum(
        row["tiles"]
        for key, row in found.history["harvest_counts"].items()
        if DAY in str(key) and key[-1] != "skip"
    )
    images = sum(
        int(row["size"] or 0) for key, row in found.history["versions"].items() if str(key[-1]) == DAY
    )
    wrong = []
    if requests < results:
        wrong.append(f"harvests.requests: {requests}, and {results} tiles have a result")
    if received < images:
        wrong.append(f"harvests.received_bytes: {received}, and {images} are in new versions")
    return wrong


def _sum_of(left: Left, column: str) -> int:
    return sum(int(row[column]) for row in left.history["harvests"].values() if row["segment"] == DAY)
