"""A simulated fleet: workers that take 10,000 maps when they are due, and die, under a given clock.

    python -m bench.fleet_simulation --maps 10000 --workers 20 --days 30 --seed 1

When a map is due, who gets its lease, when its next request may start and what its budget leaves is decided
by the program itself: `harvest/due.py`, `queue/map_table.py` and `politeness/rate_limit.py`. What
Redis, the sites and the processes would do is played here, event by event: nothing waits, and a month takes
minutes.

The harvests of the segments in which it begins are complete. Workers are killed at random and come back,
sites go down and come back. What a killed worker had on the way is asked again. Workers give a sign of life
every 5 seconds, and look for maps at once when one is due or a place is free. They have as much CPU as they
need: the report says how much that is.
"""

from __future__ import annotations

import argparse
import json
import sys
from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Final

from bench.fleet_report import Report, too_full
from bench.simulated_sites import BEGINNING, sites
from tileharvest.commands.shared_maps import LOOK
from tileharvest.harvest.due import due, leaves_room, pause_after
from tileharvest.history.past import VISITS, Past, Visit
from tileharvest.politeness.rate_limit import Account, Host, Spent, spent_part
from tileharvest.queue.map_table import MapTable
from tileharvest.queue.port import SILENT
from tileharvest.settings import HOST_DOWN_PATIENCE, MAPS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.simulated_sites import Site
    from tileharvest.queue.segments import Segment

QUANTUM: Final = 120.0
"""Seconds that a batch of requests takes."""
_SETTLED: Final = 15.0
"""Seconds after which another worker may join, as `harvest/due.py` has it."""

_LIFE: Final = 24 * 3600.0
_ABSENCE: Final = 1800.0
"""Seconds from a worker's start to its death, and from there to its next start, on average."""
_UP: Final = 30 * 24 * 3600.0
_DOWN: Final = 3600.0
"""Seconds from the end of a site's outage to the next one, and of the outage, on average."""

CPU_PER_VISIT: Final = 0.1
CPU_PER_REQUEST: Final = 0.0009
CPU_PER_CHANGE: Final = 0.0011
"""Seconds of a worker's CPU: of a visit without any request, of a request, and of a changed tile besides. See
docs/scale.md."""

_WINDOWS: Final = (1.0, 60.0, 3600.0, 86400.0)
"""Seconds. In none of them may a host be asked more often than its limit says."""


@dataclass(slots=True, eq=False)
class _Harvest:
    """What is left of a map's visit of one segment."""

    segment: Segment
    began: float
    left: int
    """Batches that nobody has asked for."""
    has_changed: bool
    changed: int
    requests: int
    flying: int = 0
    """Batches on the way."""
    answered: int = 0
    """Requests. The last batch may have fewer than others."""
    held_up: str = "a worker died"
    """By what, if it has not ended."""


@dataclass(slots=True, eq=False)
class _Map:
    site: Site
    due: float = 0.0
    segment: Segment | None = None
    """The one in which it is due."""
    harvest: _Harvest | None = None
    crews: list[_Crew] = field(default_factory=list)
    past: tuple[Visit, ...] = ()
    outages: list[tuple[float, float]] = field(default_factory=list)
    """Those of its host."""

    def is_down(self, now: float) -> bool:
        return any(begins <= now < ends for begins, ends in self.outages)


@dataclass(slots=True, eq=False)
class _Worker:
    box: str
    life: int = 0
    is_alive: bool = True
    told: float = 0.0
    """When it gave the sign of life that was written last."""
    crews: dict[str, _Crew] = field(default_factory=dict)
    """By map."""

    @property
    def name(self) -> str:
        """As another process has another name, so has the worker that comes back."""
        return f"{self.box}-{self.life}"

    @property
    def is_free(self) -> bool:
        """Whether it may take one more map."""
        return self.is_alive and len(self.crews) < MAPS_AT_ONCE


@dataclass(slots=True, eq=False)
class _Crew:
    """A worker at a map: a process, for the map's host."""

    id: str
    map: _Map
    worker: _Worker
    harvest: _Harvest
    failures: int
    began: float
    flying: int = 0
    spent: int = 0
    """Batches."""
    share: int = 0
    is_idle: bool = False


class FleetSimulation:
    """All that happens, in order. The same arguments give the same report."""

    def __init__(self, maps: int, workers: int, days: float, seed: int, quantum: float = QUANTUM) -> None:
        self._random = Random(seed)  # noqa: S311 - nothing here is secret
        self._begin = BEGINNING.timestamp()
        self._end = self._begin + days * 86400
        self.now = self._begin
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._hosts: defaultdict[str, Host] = defaultdict(Host)
        self._starts: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._table = MapTable()
        self._maps = {site.name: _Map(site) for site in sites(maps, self._random, quantum)}
        self._workers = [_Worker(f"box-{number}") for number in range(workers)]
        self._crews: dict[str, _Crew] = {}
        """Those of living workers, by their process."""
        self._waiting: dict[str, float] = {}
        """The maps that are due and that no living worker is at, with the times they were due at."""
        self._report = Report(maps, workers, days)
        self._after_due = array("d")
        self._cpu: defaultdict[tuple[str, int], float] = defaultdict(float)
        self._asked: Counter[int] = Counter()
        self._place_seconds = 0.0

    def run(self) -> Report:
        self._prepare()
        while self._events and self._events[0][0] < self._end:
            self.now, _, event = heappop(self._events)
            event()
        self._find_missed()
        self._check_limits()
        return self._reported()

    def _prepare(self) -> None:
        outages: dict[str, list[tuple[float, float]]] = {}
        for one in self._maps.values():
            host = one.site.pace.host
            if host not in outages:
                outages[host] = self._periods(_UP, _DOWN)
            one.outages = outages[host]
            self._plan(one, Past(was_ever_finished=True, is_complete=True))
        for worker in self._workers:
            for dies, returns in self._periods(_LIFE, _ABSENCE):
                self._at(dies, partial(self._die, worker))
                self._at(returns, partial(self._return, worker))

    def _periods(self, between: float, length: float) -> list[tuple[float, float]]:
        found, moment = [], self._begin
        while moment < self._end:
            begins = moment + self._random.expovariate(1 / between)
            moment = begins + self._random.expovariate(1 / length)
            found.append((begins, moment))
        return found

    def _at(self, moment: float, event: Callable[[], None]) -> None:
        heappush(self._events, (max(moment, self.now), next(self._numbers), event))

    # When a map is due

    def _plan(self, one: _Map, past: Past) -> None:
        """Asks the program when the map is due next."""
        now = datetime.fromtimestamp(self.now, UTC)
        following = due(one.site.times, past, now)
        assert following is not None
        one.due = following.moment.timestamp()
        one.segment = one.site.times.segments.segment_at(None, following.moment)
        self._at(one.due, partial(self._wait, one))

    def _wait(self, one: _Map) -> None:
        """The map waits for a worker from now on."""
        self._waiting.setdefault(one.site.name, one.due)
        self._offer()

    # Who is at which map

    def _offer(self) -> None:
        """Lets workers with a free place take what waits, the first that was due first."""
        while self._waiting:
            free = [one for one in self._workers if one.is_free]
            if not free:
                return
            worker = self._random.choice(free)
            names = sorted(self._waiting, key=self._waiting.__getitem__)
            lease = self._table_of(worker).acquire(worker.name, names, self.now)
            if lease is None:
                return
            del self._waiting[lease.map]
            self._begin_at(self._maps[lease.map], worker, lease.failures)

    def _settled_table(self) -> MapTable:
        """Returns the leases with the signs of life that living workers have given by now."""
        for worker in self._workers:
            if worker.is_alive and self.now - worker.told > SILENT - 2 * LOOK:
                self._give_sign(worker)
        ended = [one for one, heard in self._table.heard.items() if heard + SILENT <= self.now]
        self._table.settle(self.now, ended)
        return self._table

    def _table_of(self, worker: _Worker) -> MapTable:
        """Returns the leases for a step of this worker."""
        table = self._settled_table()
        table.tell(worker.name, worker.crews, self.now)
        return table

    def _give_sign(self, worker: _Worker) -> None:
        worker.told = self.now - (self.now - self._begin) % LOOK
        self._table.tell(worker.name, worker.crews, worker.told)

    def _begin_at(self, one: _Map, worker: _Worker, failures: int) -> None:
        """The worker begins the map's harvest of this segment, or goes on with it."""
        segment = one.site.times.segments.segment_at(None, datetime.fromtimestamp(self.now, UTC))
        if one.harvest is None or (one.harvest.segment != segment and not one.crews):
            if one.harvest is None:
                self._note_begin(one, segment)
            else:
                self._report.unfinished[one.harvest.held_up] += 1
            requests, changed = one.site.requests(self._random)
            batches = -(-requests // one.site.batch)
            one.harvest = _Harvest(segment, self.now, batches, changed > 0, changed, requests)
        crew = _Crew(f"{next(self._numbers)}-x", one, worker, one.harvest, failures, self.now)
        one.crews.append(crew)
        self._crews[crew.id] = crew
        worker.crews[one.site.name] = crew
        self._spend_cpu(worker, CPU_PER_VISIT)
        under_way = sum(len(each.crews) for each in self._workers)
        self._report.places_most = max(self._report.places_most, under_way)
        self._step(crew)
        self._at(self.now + _SETTLED, partial(self._join, one))

    def _note_begin(self, one: _Map, segment: Segment) -> None:
        if segment == one.segment:
            self._after_due.append(self.now - max(one.due, self._begin))
        else:
            self._miss(one)

    def _join(self, one: _Map) -> None:
        """Lets a worker with nothing to do join the map if there is room."""
        free = [each for each in self._workers if each.is_free and one.site.name not in each.crews]
        pace = one.site.pace
        if one.harvest is None or one.harvest.left < 2 or self._waiting or not free:
            return
        if leaves_room(
            limit=1 / pace.least if pace.least else None,
            concurrency=pace.concurrency,
            rates=[one.site.rate(each.share) for each in one.crews],
            since=min((self.now - each.began for each in one.crews), default=0.0),
        ):
            worker = self._random.choice(free)
            lease = self._table_of(worker).join(worker.name, one.site.name)
            if lease is not None:
                self._report.joined += 1
                self._begin_at(one, worker, lease.failures)

    def _leave(self, crew: _Crew, again: float | None = None) -> None:
        """The worker leaves the map, and tells its host and the others."""
        self._hosts[crew.map.site.pace.host].part(crew.id)
        self._dismiss(crew)
        self._table_of(crew.worker).end(crew.worker.name, crew.map.site.name, again)

    def _dismiss(self, crew: _Crew) -> None:
        budget = crew.map.site.budget.requests
        self._report.over_budget += budget is not None and crew.spent + crew.flying > budget
        crew.map.crews.remove(crew)
        del self._crews[crew.id]
        del crew.worker.crews[crew.map.site.name]
        self._place_seconds += self.now - crew.began
        crew.harvest.left += crew.flying
        crew.harvest.flying -= crew.flying

    def _is_gone(self, crew: _Crew) -> bool:
        return crew.id not in self._crews

    # How a worker harvests

    def _step(self, crew: _Crew) -> None:
        """Asks for the next requests, as far as the program lets them start."""
        if self._is_gone(crew):
            return
        one, harvest = crew.map, crew.harvest
        if one.is_down(self.now):
            self._at(self.now + HOST_DOWN_PATIENCE, partial(self._give_up, crew))
            return
        if not harvest.left:
            crew.is_idle = True
            return
        host, pace = self._hosts[one.site.pace.host], one.site.pace
        silent = [known.id for known in host.processes if known.heard <= self.now - SILENT]
        # The others give signs of life, to their host as well.
        host.settle(self.now, [known for known in silent if known not in self._crews])
        account = Account(one.site.name, is_busy=True, spent=Spent(crew.spent))
        own = host.tell(crew.id, account, self.now)
        if one.site.budget:
            host.begin(own, one.site.budget)
        wanted = 1 if one.site.batch > 1 else min(harvest.left, pace.concurrency)
        standing = host.stand(own, pace, wanted=wanted, now=self.now)
        crew.share = standing.share
        self._report.over_concurrency += sum(each.share for each in one.crews) > pace.concurrency
        if not standing.allowed:
            if spent_part(one.site.budget, standing.spent) is not None:
                self._report.failed_budget += 1
                harvest.held_up = "its budget was spent"
                self._fail(crew)
                return
            again = standing.ask_again(standing.next_start, self.now, has_some=False)
            if one.site.batch > 1 and not standing.share:
                # One that ends its batch has a share to give. It need not be asked twice a second until then.
                again = max(again, self.now + one.site.seconds(1, pace.concurrency) / 20)
            self._at(again, partial(self._step, crew))
            return
        starts, _ = host.take_starts(own, standing.allowed, now=self.now, random=self._random.random)
        self._starts[pace.host].extend(starts)
        harvest.left -= len(starts)
        harvest.flying += len(starts)
        crew.flying = len(starts)
        ends = starts[0] + one.site.seconds(len(starts), standing.share)
        self._at(ends, partial(self._answered, crew))

    def _answered(self, crew: _Crew) -> None:
        if self._is_gone(crew):
            return
        harvest = crew.harvest
        requests = min(crew.flying * crew.map.site.batch, harvest.requests - harvest.answered)
        harvest.answered += requests
        self._spend_cpu(crew.worker, requests * CPU_PER_REQUEST)
        self._asked[int((self.now - self._begin) // 3600)] += requests
        harvest.flying -= crew.flying
        crew.spent, crew.flying = crew.spent + crew.flying, 0
        if harvest.left or harvest.flying:
            self._step(crew)
        else:
            self._complete(crew.map)

    def _complete(self, one: _Map) -> None:
        harvest = one.harvest
        assert harvest is not None
        self._spend_cpu(one.crews[0].worker, harvest.changed * CPU_PER_CHANGE)
        self._report.visits += 1
        self._report.requests += harvest.requests
        self._report.changed_tiles += harvest.changed
        ends = harvest.segment.ends
        assert ends is not None
        self._report.late += self.now >= ends.timestamp()
        visit = Visit(datetime.fromtimestamp(harvest.began, UTC), harvest.has_changed)
        one.past, one.harvest = (*one.past, visit)[-VISITS:], None
        for crew in list(one.crews):
            self._leave(crew)
        is_present = self.now < ends.timestamp()
        self._plan(one, Past(was_ever_finished=True, is_complete=is_present, visits=one.past))
        self._offer()

    def _give_up(self, crew: _Crew) -> None:
        if self._is_gone(crew):
            return
        if crew.map.is_down(self.now):
            self._report.failed_down += 1
            crew.harvest.held_up = "its site was down"
            self._fail(crew)
        else:
            self._step(crew)

    def _fail(self, crew: _Crew) -> None:
        """The run has failed: the map is tried again later."""
        one, segment = crew.map, crew.harvest.segment
        assert segment.ends is not None
        again = self.now + pause_after(crew.failures + 1, segment.ends - segment.begins).total_seconds()
        self._leave(crew, again)
        if one.crews:
            self._wake(one)
        else:
            self._at(again, partial(self._wait, one))
        self._offer()

    def _wake(self, one: _Map) -> None:
        """Lets those that had nothing to do go on with what another one has left."""
        for crew in one.crews:
            if crew.is_idle:
                crew.is_idle = False
                self._step(crew)

    # How workers die

    def _die(self, worker: _Worker) -> None:
        self._give_sign(worker)
        worker.is_alive = False
        self._report.deaths += 1
        for crew in list(worker.crews.values()):
            self._report.taken_over += 1
            self._report.asked_twice += crew.flying * crew.map.site.batch
            self._dismiss(crew)
            # Redis offers what it had on the way to others when it has been silent for long.
            self._at(worker.told + SILENT, partial(self._wake, crew.map))
            if not crew.map.crews:
                self._at(worker.told + SILENT, partial(self._wait, crew.map))

    def _return(self, worker: _Worker) -> None:
        worker.life, worker.told, worker.is_alive = worker.life + 1, self.now, True
        self._offer()

    # What came of it

    def _spend_cpu(self, worker: _Worker, seconds: float) -> None:
        self._cpu[worker.box, int((self.now - self._begin) // 3600)] += seconds

    def _miss(self, one: _Map) -> None:
        assert one.segment is not None
        self._report.missed.append(f"{one.site.name} in {one.segment.name}")

    def _find_missed(self) -> None:
        """Finds the maps whose segment is over and whose visit has not begun."""
        for one in self._maps.values():
            assert one.segment is not None
            assert one.segment.ends is not None
            if one.harvest is None and one.segment.ends.timestamp() <= self._end:
                self._miss(one)

    def _check_limits(self) -> None:
        """Counts the windows in which a host was asked more often than its limit says.

        Each window that begins with a start is looked at: no other has more starts in it. A host whose maps
        have no rate has no limit but the concurrency.
        """
        gaps = {one.site.pace.host: one.site.pace.least for one in self._maps.values()}
        for host, starts in self._starts.items():
            for window in _WINDOWS if gaps[host] else ():
                most = int(window / gaps[host] * (1 + 1e-9)) + 1
                self._report.windows += len(starts)
                self._report.over_limit += too_full(starts, window, most)

    def _reported(self) -> Report:
        report, hours = self._report, max(1, int((self._end - self._begin) / 3600))
        ordered = sorted(self._after_due) or [0.0]
        for name, part in (("half", 0.5), ("99 of 100", 0.99), ("all", 1.0)):
            report.begins_after_due[name] = ordered[min(len(ordered) - 1, int(part * len(ordered)))]
        seconds = self._end - self._begin
        report.cpu_share = sum(self._cpu.values()) / seconds / len(self._workers)
        report.cpu_share_busiest_hour = max(self._cpu.values(), default=0.0) / 3600
        under_way = (self._end - crew.began for worker in self._workers for crew in worker.crews.values())
        report.places_used = (self._place_seconds + sum(under_way)) / seconds
        report.requests_per_second = sum(self._asked.values()) / seconds
        whole = [asked for hour, asked in self._asked.items() if hour < hours]
        report.requests_per_second_busiest_hour = max(whole, default=0) / 3600
        return report


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet_simulation", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--maps", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    report = FleetSimulation(chosen.maps, chosen.workers, chosen.days, chosen.seed).run()
    sys.stdout.write(json.dumps(report.as_json(), indent=2) + "\n")
    if report.faults:
        sys.exit("a map was missed, or a limit was exceeded")


if __name__ == "__main__":
    main()
