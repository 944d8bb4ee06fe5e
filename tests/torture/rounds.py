"""Rounds: harvests with disturbances that a seed draws, and the comparison of what they leave."""

import errno
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.crash.soundness import assert_sound
from tests.end_to_end.clock import Clock
from tests.end_to_end.project import answered
from tests.faults.faults import Fault, environment
from tests.fleet.workers import Worker, await_until
from tests.servers.nginx import nginx
from tests.servers.postgresql import postgresql_server
from tests.servers.redis import AOF, redis_server
from tests.torture.stages import (
    DAY,
    DAY_AFTER,
    DAY_BEFORE,
    STAGES,
    Left,
    Stage,
    Undisturbed,
    Workplace,
    publish,
)
from tests.torture.whole_history import differences
from tileharvest.history.schema import MASKS

LEASE: Final = 3
"""The seconds of a lease in a fleet. After so long others get the requests of a killed worker."""
PATIENCE: Final = 240.0
"""The seconds in which a harvest must end after its last disturbance, and in which a moment must come."""
WORKERS: Final = 3
_WRITES: Final = 300
"""The most writes after which the disk is full. A run that makes fewer ends undisturbed."""
_HOURS: Final = 30
"""The most hours by which a clock steps."""

OF_ONE: Final = {"kill": 8, "full disk": 1, "stepped clock": 1}
OF_THREE: Final = {"kill": 79, "kill of all": 3, "stop": 7, "Redis": 5, "PostgreSQL": 6}
"""The disturbances of one process and of three workers, with how often each is drawn."""

MAY_DIFFER: Final = {
    *("blocks.skips", "validators: missing"),
    *(f"validators.{name}" for name in ("harvest", "missing", "packed", "seen", "there", "whole")),
}
"""Columns that a disturbed harvest may leave otherwise. docs/reliability.md says why this harms nothing."""
MAY_DIFFER_BY_AUDIT: Final = {
    *("blocks.harvest", "blocks.reached", "harvest_counts.tiles"),
    *(f"blocks.{name}" for name in MASKS.values()),
}
"""Columns that may differ in a harvest with an audit, which draws its tiles anew."""


class Moment(NamedTuple):
    """The time of a disturbance, counted in lines of a log."""

    lines: int
    is_own: bool
    """True: counted from the beginning of the newest worker's log. False: counted from now on in the log of
    the site."""


class Round:
    """One round. It draws from `random` in an order that does not depend on what the processes do, so a
    repeated round has the same disturbances."""

    def __init__(self, workplace: Workplace, undisturbed: Undisturbed, random: Random) -> None:
        self._workplace = workplace
        self._server = workplace.server
        self._undisturbed = undisturbed
        self._random = random
        self._is_fleet = workplace.redis is not None
        self.done = Counter[str]()
        """How often each disturbance was made. A kill that came after the end of its process is not
        counted."""

    def run(self, kinds: Sequence[str] | None = None) -> None:
        """Runs the round, with as many disturbances of these kinds or with those that it draws. Raises
        AssertionError if it fails."""
        place = self._workplace
        place.open(self._undisturbed.before)
        # It may be the same request that is lost each time.
        place.fleet.settings |= {"LOG_LEVEL": "INFO", "RETRY_PAUSE": 0.02, "MAX_ATTEMPTS": 20}
        if self._is_fleet:
            place.fleet.settings |= {"LEASE_SECONDS": LEASE}
        self._server.clear_log()
        if kinds is None:
            weights = OF_THREE if self._is_fleet else OF_ONE
            number = self._random.randint(2, 14)
            kinds = self._random.choices(list(weights), list(weights.values()), k=number)
        (self._disturb_fleet if self._is_fleet else self._disturb_one)(kinds)
        self._end()
        self._compare()

    def _disturb_one(self, kinds: Sequence[str]) -> None:
        place, random = self._workplace, self._random
        for what in kinds:
            moment = self._draw(len(kinds))
            write, hours = random.randint(1, _WRITES), random.randint(-_HOURS, _HOURS)
            if what == "full disk":
                project = place.fleet.project
                fault = Fault("write", write, errno.ENOSPC, lasting=True)
                worker = place.start(DAY, environment=environment(project.folder, project.data, fault))
                place.fleet.await_ends(worker, patience=PATIENCE)
                self.done[what] += worker.status == 1
            else:
                clock = Clock(place.folder / "clock") if what == "stepped clock" else None
                worker = place.start(DAY, environment=clock and clock.environment)
                if not self._await(moment, [worker]):
                    break
                if clock is not None:
                    clock.step(hours * 3600)
                    self.done[what] += 1
                    self._await(moment._replace(is_own=False), [worker])
                self._kill(worker)
            assert_sound(place.fleet.project)

    def _disturb_fleet(self, kinds: Sequence[str]) -> None:
        workers = [self._workplace.start(DAY) for _ in range(WORKERS)]
        for what in kinds:
            moment, which = self._draw(len(kinds)), self._random.randrange(WORKERS)
            if not self._await(moment, workers):
                break
            self._disturb_workers(what, workers, which)
        self._workplace.fleet.await_ends(*workers, patience=PATIENCE)

    def _disturb_workers(self, what: str, workers: list[Worker], which: int) -> None:
        place = self._workplace
        assert place.redis is not None
        assert place.postgresql is not None
        if what == "stop":
            if workers[which].freeze():
                # The time of the leases must pass.
                time.sleep(LEASE + 1)
                workers[which].wake()
                self.done[what] += 1
        elif what == "Redis":
            place.redis.kill()
            self.done[what] += 1
            place.redis.start()
        elif what == "PostgreSQL":
            place.postgresql.kill()
            self.done[what] += 1
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

    def _draw(self, disturbances: int) -> Moment:
        """Returns a moment: two of five are within 12 lines, at the beginning of a run or just after the
        last disturbance; the others are spread over the requests of the harvest."""
        most = max(2, 2 * self._undisturbed.requests // (disturbances + 1))
        kind, few, many = self._random.random(), self._random.randint(1, 12), self._random.randint(1, most)
        return Moment(few if kind < 0.4 else many, is_own=kind < 0.2)

    def _await(self, moment: Moment, workers: list[Worker]) -> bool:
        """Waits for the moment. Returns False if all workers have ended before it."""
        so_far, last = answered(self._server), workers[-1]

        def comes_or_never() -> bool:
            if all(worker.has_ended for worker in workers):
                return True
            if moment.is_own:
                return last.log.count("\n") >= moment.lines or last.has_ended
            return answered(self._server) >= so_far + moment.lines

        try:
            await_until(comes_or_never, PATIENCE)
        except TimeoutError:
            raise AssertionError(
                f"nothing happens any more: {[worker.log[-2000:] for worker in workers]}"
            ) from None
        return not all(worker.has_ended for worker in workers)

    def _kill(self, worker: Worker) -> None:
        worker.wake()
        worker.kill()
        self.done["kill"] += worker.status == -9

    def _end(self) -> None:
        """Runs the harvest once more, undisturbed, so that it gets to its end."""
        last = self._workplace.start(DAY)
        self._workplace.fleet.await_ends(last, patience=PATIENCE)
        for worker in self._workplace.fleet.workers:
            if "Traceback" in worker.log:
                at = worker.log.index("Traceback")
                raise AssertionError(f"a traceback: {worker.log[max(0, at - 500) :][:4000]}")
        if last.status != 0:
            raise AssertionError(f"the last run ended with {last.status}: {last.log[-3000:]}")

    def _compare(self) -> None:
        place, expected = self._workplace, self._undisturbed
        wrong = [*self._wrong(place.left(), expected.found)]
        assert_sound(place.fleet.project)
        if self._is_fleet:
            # The next day waits for a killed worker until its leases expire.
            time.sleep(LEASE + 1)
        place.harvest(DAY_AFTER)
        # The walk of that day shows that the kills have changed nothing of what its choice rests on.
        ours, theirs = (
            {table: left.history[table] for table in ("versions", "harvests")}
            for left in (place.left(), expected.after)
        )
        wrong += [f"on the day after, {one}" for one in differences(ours, theirs)]
        if wrong:
            raise AssertionError("\n".join(map(str, wrong)))

    def _wrong(self, found: Left, expected: Left) -> Iterator[object]:
        is_audited = "audit" in self._workplace.stage.name
        allowed = MAY_DIFFER | (MAY_DIFFER_BY_AUDIT if is_audited else set())
        yield from (one for one in differences(found.history, expected.history) if one.place not in allowed)
        if found.images != expected.images:
            every = sorted(found.images.keys() | expected.images.keys())
            yield f"images: {[one for one in every if found.images.get(one) != expected.images.get(one)][:5]}"
        for name, left in self._queues():
            if left != (0, 0):
                yield f"queue of {name}: {left}"

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


class Torture:
    """The servers that rounds share, and the undisturbed results of their stages."""

    def __init__(self, maps: Path, folder: Path, servers: ExitStack) -> None:
        """`maps` is the folder of the real maps. All stages share one site, so a map keeps its address."""
        self._maps = maps
        self._folder = folder
        self._site = folder / "site"
        self._site.mkdir()
        self._server = servers.enter_context(nginx(self._site))
        self._redis = servers.enter_context(redis_server(*AOF))
        self._postgresql = servers.enter_context(postgresql_server())
        self._undisturbed: dict[tuple[Stage, bool], Undisturbed] = {}

    def round(
        self, name: str, stage: Stage, random: Random, *, is_fleet: bool, kinds: Sequence[str] | None = None
    ) -> Counter[str]:
        """Runs one round in a folder of this name, and returns its disturbances. Raises AssertionError."""
        undisturbed = self._ends_undisturbed(stage, is_fleet=is_fleet)
        workplace = self._workplace(stage, name, is_fleet=is_fleet)
        this = Round(workplace, undisturbed, random)
        try:
            this.run(kinds)
        except BaseException:
            workplace.fleet.__exit__()
            self._redis.ask("FLUSHALL")
            raise
        workplace.close()
        return this.done

    def _workplace(self, stage: Stage, name: str, *, is_fleet: bool) -> Workplace:
        shared = (self._redis, self._postgresql) if is_fleet else (None, None)
        return Workplace(stage, self._server, *shared, self._folder / name, name)

    def _ends_undisturbed(self, stage: Stage, *, is_fleet: bool) -> Undisturbed:
        """Returns what the stage leaves undisturbed. The first call harvests it, by one worker."""
        if (stage, is_fleet) not in self._undisturbed:
            name = f"stage{STAGES.index(stage)}{'three' if is_fleet else 'one'}"
            before = None
            if publish(self._maps, stage, self._site, is_before=True):
                before = self._workplace(stage, f"{name}before", is_fleet=is_fleet)
                before.open()
                before.harvest(DAY_BEFORE)
            publish(self._maps, stage, self._site, is_before=False)
            workplace = self._workplace(stage, name, is_fleet=is_fleet)
            workplace.open(before)
            self._server.clear_log()
            workplace.harvest(DAY)
            found, requests = workplace.left(), len(list(self._server.log()))
            workplace.harvest(DAY_AFTER)
            self._undisturbed[stage, is_fleet] = Undisturbed(before, found, requests, workplace.left())
            workplace.close()
        publish(self._maps, stage, self._site, is_before=False)
        return self._undisturbed[stage, is_fleet]
