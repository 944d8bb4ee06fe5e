"""The state of a host that all its processes share, and what follows from it for one of them: rate limit,
shares, rests and budgets. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from tileharvest.maps.budgets import PARTS, Budget
from tileharvest.maps.rates import LONGEST, NO_GAP, Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

HORIZON: Final = 0.5
"""Seconds by which requests are leased before they may start, if several processes ask a host. It is short,
because a rest that one process hears of does not take back what the others have leased."""

ALONE: Final = 8.0
"""The same seconds for a process that asks a host alone. It leases for half of them at a time, because to
lease each request by itself costs much CPU at a slow site. A process that joins it waits for so long at
most."""

_AGAIN: Final = 0.1
"""Seconds after which to ask again for what was held back."""
_LESS_OFTEN: Final = 3
"""The most times that this pause is longer if a gap holds several processes back, because any of them may
find the next start."""
_AGAIN_WITHOUT_SHARE: Final = 0.5
"""Seconds after which a process without a share asks again."""

_SET_BACK: Final = 60.0
"""Seconds by which a clock may go back when it is corrected. If it goes back further, the times that were
noted before mean nothing."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast all processes of a map together may ask its host. Raises ValueError for a pace that asks
    nothing."""

    host: str
    concurrency: int
    """The most requests of the map on the way at the same time."""
    gap: Gap = NO_GAP
    """The gap from the start of one request of the map to the start of its next, in whichever processes."""
    host_concurrency: int | None = None
    """The most requests to the host on the way at the same time, of all maps together. None if only its maps
    limit them."""
    host_gap: Gap = NO_GAP
    """The gap from the start of one request to the host to the start of the next, of whichever maps."""

    def __post_init__(self) -> None:
        if not self.host or self.concurrency < 1:
            raise ValueError(f"a pace of {self.concurrency} requests at once to '{self.host}' asks nothing")
        if self.host_concurrency is not None and self.host_concurrency < 1:
            raise ValueError(f"{self.host_concurrency} requests at once to '{self.host}' ask nothing")

    @property
    def least(self) -> float:
        """The least seconds from the start of one request to the start of the next."""
        return max(self.gap.least, self.host_gap.least)


class Spent(msgspec.Struct, frozen=True):
    """The spent amounts of a budget, in the order of its parts."""

    requests: int = 0
    """The requests that were started."""
    received_bytes: int = 0
    seconds: float = 0.0
    """The seconds of work."""


class Account(msgspec.Struct, frozen=True):
    """The facts that a process tells of itself with each step."""

    map: str
    in_flight: int = 0
    """The requests that it has on the way."""
    is_busy: bool = False
    """Whether it had anything to do when it asked last."""
    ahead: int = 0
    """The requests that were leased to it and have not started."""
    spent: Spent = Spent()
    """The amounts that it has spent in the present run of its map."""


class Process(msgspec.Struct):
    """A process that asks the host."""

    id: Annotated[str, msgspec.Meta(pattern=r"\A\d+-\w+\Z")]
    """The name of the process, and of its lock. A state that has any other id is refused when it is read."""
    account: Account
    heard: float
    """When the process made its last step."""
    share: int = 0
    """The requests that it may have on the way, as it was told last."""
    counted: int = 0
    """The requests on the way that the others must expect of it. A larger share of before counts until the
    process has told that it has fewer requests on the way."""


class Turn(msgspec.Struct, frozen=True):
    """The start of the last request, and a random number from which the wait of the next one is drawn.

    The gap itself is read when the next request comes, so that a new pace counts at once."""

    start: float
    chance: float
    """A number from 0 to 1."""


class Run(msgspec.Struct):
    """The budget that the processes of a map spend together, from the first one's start to the last one's
    end."""

    budget: Budget
    """The budget of the first process, or the one that has amended it last."""
    ended: Spent = Spent()
    """The amounts that processes had spent when they ended."""


class Limited(msgspec.Struct):
    """The limits of a host, or of one of its maps, and their state."""

    concurrency: int | None = None
    gap: Gap = NO_GAP
    turn: Turn | None = None
    run: Run | None = None
    """The run of a map that has a budget."""

    @property
    def next_start(self) -> float:
        """When the next request may start. This is in the past if nothing is to be waited for."""
        return self.turn.start + self.gap.draw(self.turn.chance) if self.turn and self.gap else 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """The rights of one process at this moment."""

    share: int
    """The requests that it may have on the way."""
    allowed: int
    """The requests that may be leased, of those wanted."""
    rests_until: float | None
    """When the host's rest ends. None if the host does not rest."""
    next_start: float
    """When the next request may start. This is in the past if nothing is to be waited for."""
    askers: int
    """The number of processes among which the starts are divided."""
    has_gap: bool
    """Whether the map or the host has a gap."""
    spent: Spent
    """The amounts that all processes of the run have spent."""
    is_alone: bool = False
    """Whether no other process asks the host."""

    def ask_again(self, next_start: float, now: float, *, has_some: bool) -> float:
        """Returns when to ask again for what was held back, if the next request may start at `next_start`.

        A process that `has_some` leaves the next starts to the others. A process that is alone asks for
        several starts at once."""
        pause, ahead = _AGAIN, HORIZON / 2 if has_some and self.askers > 1 else HORIZON
        if self.is_alone:
            ahead = ALONE / 2
        if not self.share:
            pause = _AGAIN_WITHOUT_SHARE
        elif next_start > now:
            pause = _AGAIN * min(self.askers, _LESS_OFTEN)
        return max(now + pause, self.rests_until or 0.0, next_start - ahead)


class Host(msgspec.Struct):
    """The state of a host. All times are in seconds since 1970, by one clock. The size is bounded, because
    past turns and ended processes are forgotten.

    A step calls `settle` first, and then other methods. Its changes are kept together or not at all.
    """

    written: float = 0.0
    """When the last step was made."""
    writer: str = ""
    """A random text of the last step that was kept, which tells its state from all others."""
    rests_until: float = 0.0
    """When the host's rest ends."""
    probed_until: float = 0.0
    """When the claim of the last probe ends."""
    own: Limited | None = None
    """The limits of the host. None before any process has set a pace."""
    maps: dict[str, Limited] = {}
    """The limits of its maps."""
    processes: list[Process] = []
    """The processes in the order in which they came."""

    @property
    def heard(self) -> dict[str, float]:
        """The processes, each with the time of its last step."""
        return {process.id: process.heard for process in self.processes}

    def settle(self, now: float, ended: Collection[str]) -> None:
        """Forgets the processes that have `ended`, and turns and runs that are over. If the clock was set
        back, forgets all times."""
        if now < self.written - _SET_BACK:
            self.rests_until = self.probed_until = 0.0
            for limited in (self.own or Limited(), *self.maps.values()):
                limited.turn = None
        self.written = now
        for process in ended:
            self.part(process)
        asking = {process.account.map for process in self.processes}
        for name, of_map in list(self.maps.items()):
            if name not in asking:
                of_map.run = None
                if of_map.turn is None or of_map.turn.start <= now - LONGEST:
                    del self.maps[name]

    def seen_by_others(self, process: str, every: float) -> bytes:
        """Returns what the other processes can see of this state, as a text to compare with another one.

        It leaves out when the last step was made, and what nobody else looks at of this process: the requests
        on the way besides those that count, and what it spends if its map has no budget. The time when it was
        last heard of is rounded down to a multiple of `every` seconds."""
        processes = list(self.processes)
        for place, own in enumerate(processes):
            if own.id == process:
                run = self.maps.get(own.account.map, Limited()).run
                unseen = {"in_flight": 0} if run else {"in_flight": 0, "ahead": 0, "spent": Spent()}
                account = msgspec.structs.replace(own.account, **unseen)
                heard = own.heard // every
                processes[place] = msgspec.structs.replace(own, account=account, heard=heard)
        return msgspec.json.encode(msgspec.structs.replace(self, written=0.0, writer="", processes=processes))

    def limit(self, own: Process, pace: Pace) -> None:
        """Sets the limits of the map and of its host for all processes. The pace that was set last holds, but
        `stand` makes the gap of the host no shorter than that of any process that asks."""
        of_host = self.own = self.own or Limited()
        of_map = self.maps.setdefault(own.account.map, Limited())
        of_host.concurrency, of_host.gap = pace.host_concurrency, pace.host_gap
        of_map.concurrency, of_map.gap = pace.concurrency, pace.gap

    def tell(self, process: str, account: Account, now: float) -> Process:
        """Notes that the process is alive, and its account. Returns the process, whose share stays."""
        own = next((known for known in self.processes if known.id == process), None)
        if own is None:
            own = Process(process, account, now, counted=account.in_flight)
            self.processes.append(own)
        own.account, own.heard = account, now
        return own

    def begin(self, own: Process, budget: Budget, *, amends: bool = False) -> Budget:
        """Lets the process take part in the run of its map. Returns the budget of the run: the given one if
        the run begins now or if it `amends` the one before."""
        of_map = self.maps.setdefault(own.account.map, Limited())
        if of_map.run is None or amends:
            of_map.run = Run(budget, Spent() if of_map.run is None else of_map.run.ended)
        return of_map.run.budget

    def spend(self, own: Process) -> bool:
        """Returns whether the budget allows one request besides those of the process's account. If it does,
        the request counts from now on."""
        is_left = self._left(own.account.map, 1) > 0
        own.account = msgspec.structs.replace(own.account, ahead=own.account.ahead + is_left)
        return is_left

    def part(self, process: str) -> None:
        """Removes a process that has ended. Its share is free; what it has spent still counts."""
        for own in [one for one in self.processes if one.id == process]:
            self.processes.remove(own)
            of_map = self.maps.get(own.account.map)
            if of_map is not None and of_map.run is not None:
                of_map.run.ended = spent_together([of_map.run.ended, own.account.spent])

    def stand(self, own: Process, pace: Pace, *, wanted: int, now: float) -> Standing:
        """Returns the share of a process, and how many of the wanted requests it may lease. These count as
        leased from now on."""
        account = own.account
        if self.own is None or account.map not in self.maps or self.maps[account.map].concurrency is None:
            self.limit(own, pace)
        of_host, of_map = self.own or Limited(), self.maps[account.map]
        if pace.host_gap:
            # A map of this host does not know of one from another host, and may have set a shorter gap since.
            of_host.gap = of_host.gap.at_least(pace.host_gap)
        share = self._share(own, of_host, of_map)
        rests_until = self.rests_until if self.rests_until > now else None
        next_start = self.next_start(own)
        parts = min(len(self._mates(account.map)), of_map.concurrency or 1)
        busy = sum(one.account.is_busy or one is own for one in self.processes)
        host_parts = min(busy, of_host.concurrency or busy)
        allowed = wanted if share and rests_until is None else 0
        is_alone = len(self.processes) == 1
        horizon = now + (ALONE if is_alone else HORIZON)
        for limited, askers in ((of_map, parts), (of_host, host_parts)):
            allowed = _starts_until(horizon, limited.gap, max(next_start, now), askers, allowed)
        allowed = self._left(account.map, allowed)
        own.account = msgspec.structs.replace(account, ahead=account.ahead + allowed)
        return Standing(
            share,
            allowed,
            rests_until,
            next_start,
            max(parts, host_parts),
            bool(of_map.gap or of_host.gap),
            self.spent(account.map),
            is_alone,
        )

    def visit(
        self, own: Process, pace: Pace, visits: int, *, now: float, random: Callable[[], float]
    ) -> tuple[bool, float]:
        """Takes a start for a request of a process whose map lies at another host. The process has so many
        requests on the way to this host (`visits`), and `pace` is that of its map, with this host's limits.

        Returns whether the start was taken, and when the request may start. If the start was not taken, that
        is the time at which to ask again: the host rests, all of its concurrency is used, or the start is too
        far away. The limits that maps of this host have set stay, but a gap may become longer.
        """
        if self.own is not None:
            host_gap = self.own.gap.at_least(pace.host_gap)
            pace = replace(pace, host_concurrency=self.own.concurrency, host_gap=host_gap)
        self.limit(own, pace)
        standing = self.stand(own, pace, wanted=1, now=now)
        if standing.share > visits and standing.allowed:
            (start,), _ = self.take_starts(own, 1, now=now, random=random)
            return True, start
        return False, standing.ask_again(standing.next_start, now, has_some=False)

    def next_start(self, own: Process) -> float:
        """Returns when the next request of the process that is not leased yet may start."""
        of_host, of_map = self.own or Limited(), self.maps.get(own.account.map, Limited())
        return max(of_host.next_start, of_map.next_start)

    def take_starts(
        self, own: Process, number: int, *, now: float, random: Callable[[], float]
    ) -> tuple[list[float], float]:
        """Returns the starts of so many requests, and when the request after them may start. Starts that
        nobody has used before now are lost."""
        of_host, of_map = self.own or Limited(), self.maps.setdefault(own.account.map, Limited())
        starts = []
        for _ in range(number):
            starts.append(max(now, self.next_start(own)))
            of_host.turn, of_map.turn = (Turn(starts[-1], random()) for _ in range(2))
        return starts, self.next_start(own)

    def turns(self, own: Process) -> tuple[Turn | None, Turn | None]:
        """Returns the last turns of the host and of the process's map."""
        of_host, of_map = self.own or Limited(), self.maps.get(own.account.map, Limited())
        return of_host.turn, of_map.turn

    def give_back(
        self, own: Process, starts: Sequence[float], before: tuple[Turn | None, Turn | None]
    ) -> None:
        """Gives back starts that `take_starts` has returned and that no request uses. `before` are the turns
        before them. If others have taken later starts since then, nobody uses the given ones."""
        if starts and all(turn is not None and turn.start == starts[-1] for turn in self.turns(own)):
            assert self.own is not None
            self.own.turn, self.maps[own.account.map].turn = before

    def rest(self, until: float) -> None:
        """Lets the host rest until this time at least."""
        self.rests_until = max(self.rests_until, until)

    def claim_probe(self, now: float, seconds: float) -> bool:
        """Claims the probe for so many seconds, and returns True. Returns False while a claim holds."""
        if self.probed_until > now:
            return False
        self.probed_until = now + seconds
        return True

    def spent(self, name: str, *, but: str = "") -> Spent:
        """Returns what all processes of a map have spent in its run, those that have ended included. The
        process `but` is left out."""
        of_map = self.maps.get(name)
        if of_map is None or of_map.run is None:
            return Spent()
        mates = [mate for mate in self._mates(name) if mate.id != but]
        return spent_together([of_map.run.ended, *(mate.account.spent for mate in mates)])

    def _mates(self, name: str) -> list[Process]:
        """Returns all processes of a map."""
        return [process for process in self.processes if process.account.map == name]

    def _left(self, name: str, wanted: int) -> int:
        """Returns how many of the wanted requests the budget of the run allows."""
        run = self.maps[name].run
        if run is None:
            return wanted
        spent, most = self.spent(name), run.budget.requests
        if spent_part(run.budget, spent, ("bytes", "seconds")) is not None:
            return 0
        if most is None:
            return wanted
        ahead = sum(mate.account.ahead for mate in self._mates(name))
        return min(wanted, max(0, most - spent.requests - ahead))

    def _share(self, own: Process, of_host: Limited, of_map: Limited) -> int:
        """Returns how many requests the process may have on the way.

        Every process counts with the share that it was told last, because it may start as many until it hears
        of a smaller one, and with what it has on the way. A share grows only by what these leave. So all
        processes together never have more on the way than the concurrency."""
        mates = [mate for mate in self._mates(own.account.map) if mate is not own]
        share = self._fair_share(own, of_host)
        if share > own.share:
            left = (of_map.concurrency or share) - sum(mate.counted for mate in mates)
            if of_host.concurrency is not None:
                others = sum(other.counted for other in self.processes if other is not own)
                left = min(left, of_host.concurrency - others)
            share = max(0, min(share, left))
        own.counted = max(own.share, share, own.account.in_flight)
        own.share = share
        return share

    def _fair_share(self, own: Process, of_host: Limited) -> int:
        """Returns the share that the process has when all processes have heard of theirs."""
        shares = []
        for process in self.processes:
            mates, name = self._mates(process.account.map), process.account.map
            total = (self.maps[name].concurrency if name in self.maps else None) or 0
            shares.append(total // len(mates) + (mates.index(process) < total % len(mates)))
        if of_host.concurrency is not None:
            shares = _levelled(shares, of_host.concurrency)
        return shares[self.processes.index(own)]


def spent_part(budget: Budget, spent: Spent, parts: Sequence[str] = PARTS) -> str | None:
    """Returns the first of these parts of the budget that is spent, or None if something of each is left."""
    for part, most, so_far in zip(PARTS, budget.limits, msgspec.structs.astuple(spent), strict=True):
        if part in parts and most is not None and so_far >= most:
            return part
    return None


def spent_together(several: Sequence[Spent]) -> Spent:
    """Returns the sum that several processes have spent. Requests and bytes add up. The largest number of
    seconds counts, because processes work side by side, and one that comes later begins with those of the
    others."""
    return Spent(
        sum(one.requests for one in several),
        sum(one.received_bytes for one in several),
        max(one.seconds for one in several),
    )


def _starts_until(horizon: float, gap: Gap, start: float, askers: int, wanted: int) -> int:
    """Returns how many of the wanted requests a gap allows one process from the next start to the horizon.

    The starts are divided among all askers, or the process that asks first would have all of them.
    """
    if not gap:
        return wanted
    # A billionth is added, because sums of floating-point starts are not exact.
    number = floor((horizon - start) / gap.mean + 1e-9) + 1
    return min(wanted, max(0, ceil(number / askers)))


def _levelled(wanted: Sequence[int], total: int) -> list[int]:
    """Divides the total equally. Nobody gets more than is wanted; the others get the rest. If it cannot be
    divided equally, those that stand first get one more."""
    parts, left = [0] * len(wanted), total
    by_size = sorted(range(len(wanted)), key=lambda place: (wanted[place], -place))
    for number, place in enumerate(by_size):
        parts[place] = min(wanted[place], left // (len(wanted) - number))
        left -= parts[place]
    return parts
