"""What is known of a host by all who ask it, and what follows for one of them: rate limit, shares, rests and
budgets. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from tileharvest.maps.budgets import PARTS, Budget
from tileharvest.maps.rates import LONGEST, NO_GAP, Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

HORIZON: Final = 0.5
"""Seconds by which requests are leased before they may start, where several processes ask a host. A rest that
one of them hears of does not take back what the others have leased, so this is kept short."""

ALONE: Final = 4.0
"""The same for a process that asks a host alone. It leases for half of these seconds at a time, as each lease
of its own costs much CPU where a site is asked slowly. A process that joins it waits so long at most."""

_AGAIN: Final = 0.1
_LESS_OFTEN: Final = 3
_AGAIN_WITHOUT_SHARE: Final = 0.5
"""Seconds after which it is worth asking again for what was held back. Of several processes that a gap holds
back any may find the next start, so each asks less often, up to so many times. One without a share has
long."""

_SET_BACK: Final = 60.0
"""Seconds by which a clock that was corrected may run behind; further back, times ahead of it mean
nothing."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How all processes of a map together may ask its host. Raises ValueError for a pace that asks
    nothing."""

    host: str
    concurrency: int
    """Requests of the map on the way at the same time."""
    gap: Gap = NO_GAP
    """From the start of one request of the map to the start of its next, whichever process makes them."""
    host_concurrency: int | None = None
    """Requests to the host on the way at the same time, of all maps together; None: as many as its maps
    may."""
    host_gap: Gap = NO_GAP
    """From the start of one request to the host to the start of the next, of whichever maps."""

    def __post_init__(self) -> None:
        if not self.host or self.concurrency < 1:
            raise ValueError(f"a pace of {self.concurrency} requests at once to '{self.host}' asks nothing")
        if self.host_concurrency is not None and self.host_concurrency < 1:
            raise ValueError(f"{self.host_concurrency} requests at once to '{self.host}' ask nothing")

    @property
    def least(self) -> float:
        """Seconds from the start of one request to that of the next at least."""
        return max(self.gap.least, self.host_gap.least)


class Spent(msgspec.Struct, frozen=True):
    """What a budget limits, in the order of its parts."""

    requests: int = 0
    """Those that were started."""
    received_bytes: int = 0
    seconds: float = 0.0
    """Worked."""


class Account(msgspec.Struct, frozen=True):
    """What a process tells of itself with each step."""

    map: str
    in_flight: int = 0
    """Requests that it has on the way."""
    is_busy: bool = False
    """Whether there was anything to do for it when it asked last."""
    ahead: int = 0
    """Requests that were leased to it and have not started."""
    spent: Spent = Spent()
    """In the present run of its map."""


class Process(msgspec.Struct):
    """One that asks the host."""

    id: Annotated[str, msgspec.Meta(pattern=r"\A\d+-\w+\Z")]
    """Names a lock. A state that was read with any other id is refused."""
    account: Account
    heard: float
    """When it made its last step."""
    share: int = 0
    """Requests that it may have on the way, as it was told last."""
    counted: int = 0
    """The most that it may have on the way: what it was told before counts until it tells that it has
    less."""


class Turn(msgspec.Struct, frozen=True):
    """The start of the last request. How long the next one waits is drawn with it, but from the gap that
    holds when the next one comes, so that another pace counts at once."""

    start: float
    chance: float
    """From 0 to 1."""


class Run(msgspec.Struct):
    """What the processes of a map spend together, from the first one's beginning to the last one's end."""

    budget: Budget
    """That of the first process, or the one by which it was amended last."""
    ended: Spent = Spent()
    """Spent by processes that have ended."""


class Limited(msgspec.Struct):
    """What has a concurrency and a gap: a host, or one map of it."""

    concurrency: int | None = None
    gap: Gap = NO_GAP
    turn: Turn | None = None
    run: Run | None = None
    """Of a map that has a budget."""

    @property
    def next_start(self) -> float:
        """In the past where nothing is to be waited for."""
        return self.turn.start + self.gap.draw(self.turn.chance) if self.turn and self.gap else 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """What one process may do now."""

    share: int
    allowed: int
    """Requests that may be leased, of those wanted."""
    rests_until: float | None
    next_start: float
    """When the next request may start; the past where nothing is to be waited for."""
    askers: int
    """Processes among which the starts are divided."""
    has_gap: bool
    spent: Spent
    """By all processes of the run."""
    is_alone: bool = False
    """Whether no other process asks the host."""

    def ask_again(self, next_start: float, now: float, *, has_some: bool) -> float:
        """Returns when to ask for what was held back, if the next request may start at `next_start`. Who has
        got some now leaves the next ones to others. Who is alone asks for several at once."""
        pause, ahead = _AGAIN, HORIZON / 2 if has_some and self.askers > 1 else HORIZON
        if self.is_alone:
            ahead = ALONE / 2
        if not self.share:
            pause = _AGAIN_WITHOUT_SHARE
        elif next_start > now:
            pause = _AGAIN * min(self.askers, _LESS_OFTEN)
        return max(now + pause, self.rests_until or 0.0, next_start - ahead)


class Host(msgspec.Struct):
    """All times are in seconds since 1970, of one clock. Its size is bounded: it forgets past turns and ended
    processes.

    Whoever makes a step calls `settle` first, then methods that change it, and keeps all of that or nothing.
    """

    written: float = 0.0
    writer: str = ""
    """Another one for each step that was kept."""
    rests_until: float = 0.0
    probed_until: float = 0.0
    own: Limited | None = None
    """None while nobody has set a pace: then whoever asks brings its own."""
    maps: dict[str, Limited] = {}
    processes: list[Process] = []
    """Whoever came first stands first."""

    def settle(self, now: float, ended: Collection[str]) -> None:
        """Forget these processes, what is over, and all times where the clock has been set back."""
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

    def limit(self, own: Process, pace: Pace) -> None:
        """The last one who sets a pace sets what holds for all of its map, and of its host."""
        of_host = self.own = self.own or Limited()
        of_map = self.maps.setdefault(own.account.map, Limited())
        of_host.concurrency, of_host.gap = pace.host_concurrency, pace.host_gap
        of_map.concurrency, of_map.gap = pace.concurrency, pace.gap

    def tell(self, process: str, account: Account, now: float) -> Process:
        """The process is alive, and this is its account. Its share does not change."""
        own = next((known for known in self.processes if known.id == process), None)
        if own is None:
            own = Process(process, account, now, counted=account.in_flight)
            self.processes.append(own)
        own.account, own.heard = account, now
        return own

    def begin(self, own: Process, budget: Budget, *, amends: bool = False) -> Budget:
        """Let the process spend of the run of its map. Returns the run's budget: this one where no other
        process is at it, or where it `amends` the one before."""
        of_map = self.maps.setdefault(own.account.map, Limited())
        if of_map.run is None or amends:
            of_map.run = Run(budget, Spent() if of_map.run is None else of_map.run.ended)
        return of_map.run.budget

    def spend(self, own: Process) -> bool:
        """Returns whether the process may make one request besides those that it has told of. If so it counts
        from now on."""
        is_left = self._left(own.account.map, 1) > 0
        own.account = msgspec.structs.replace(own.account, ahead=own.account.ahead + is_left)
        return is_left

    def part(self, process: str) -> None:
        """The process has ended. Its share is free; what it has spent is not."""
        for own in [one for one in self.processes if one.id == process]:
            self.processes.remove(own)
            of_map = self.maps.get(own.account.map)
            if of_map is not None and of_map.run is not None:
                of_map.run.ended = _sum([of_map.run.ended, own.account.spent])

    def stand(self, own: Process, pace: Pace, *, wanted: int, now: float) -> Standing:
        """Tell a process its share, and how many of the wanted requests it may lease. Those count as leased
        ahead from now on."""
        account = own.account
        if self.own is None or account.map not in self.maps or self.maps[account.map].concurrency is None:
            self.limit(own, pace)
        of_host, of_map = self.own or Limited(), self.maps[account.map]
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

    def next_start(self, own: Process) -> float:
        """Returns when the next request of the process may start, of those that are not leased."""
        of_host, of_map = self.own or Limited(), self.maps.get(own.account.map, Limited())
        return max(of_host.next_start, of_map.next_start)

    def take_starts(
        self, own: Process, number: int, *, now: float, random: Callable[[], float]
    ) -> tuple[list[float], float]:
        """Returns the starts of so many requests, and when the one after them may start. What was not used
        before is not saved up."""
        of_host, of_map = self.own or Limited(), self.maps.setdefault(own.account.map, Limited())
        starts = []
        for _ in range(number):
            starts.append(max(now, self.next_start(own)))
            of_host.turn, of_map.turn = (Turn(starts[-1], random()) for _ in range(2))
        return starts, self.next_start(own)

    def rest(self, until: float) -> None:
        """Let it rest until this time at least."""
        self.rests_until = max(self.rests_until, until)

    def claim_probe(self, now: float, seconds: float) -> bool:
        """Claim the probe for so many seconds. Returns False where another process has claimed it for now."""
        if self.probed_until > now:
            return False
        self.probed_until = now + seconds
        return True

    def spent(self, name: str, *, but: str = "") -> Spent:
        """Returns what the processes of the run of a map have spent, those that have ended included. `but`
        one is left out."""
        of_map = self.maps.get(name)
        if of_map is None or of_map.run is None:
            return Spent()
        mates = [mate for mate in self._mates(name) if mate.id != but]
        return _sum([of_map.run.ended, *(mate.account.spent for mate in mates)])

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

        A process counts with what it was told last, as it may start that much until it hears of less, and
        with what it has on the way. It is told more only when that is left. So all together never have more
        on the way than the concurrency."""
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
        """Returns the share that the process would have if all were told theirs."""
        shares = []
        for process in self.processes:
            mates, name = self._mates(process.account.map), process.account.map
            total = (self.maps[name].concurrency if name in self.maps else None) or 0
            shares.append(total // len(mates) + (mates.index(process) < total % len(mates)))
        if of_host.concurrency is not None:
            shares = _levelled(shares, of_host.concurrency)
        return shares[self.processes.index(own)]


def spent_part(budget: Budget, spent: Spent, parts: Sequence[str] = PARTS) -> str | None:
    """Returns the first of these parts of the budget that is spent, or None if there is something left of
    each."""
    for part, most, so_far in zip(PARTS, budget.limits, msgspec.structs.astuple(spent), strict=True):
        if part in parts and most is not None and so_far >= most:
            return part
    return None


def _sum(several: Sequence[Spent]) -> Spent:
    """Requests and bytes add up. Of the seconds the most count: processes work side by side, and one that
    comes later begins with those of the others."""
    return Spent(
        sum(one.requests for one in several),
        sum(one.received_bytes for one in several),
        max(one.seconds for one in several),
    )


def _starts_until(horizon: float, gap: Gap, start: float, askers: int, wanted: int) -> int:
    """Returns how many of the wanted requests a gap allows from the next start to the horizon.

    They are divided among those who keep the gap together, or whoever asks first would have all of them.
    """
    if not gap:
        return wanted
    # A billionth, as the starts that were added up are not exact.
    number = floor((horizon - start) / gap.mean + 1e-9) + 1
    return min(wanted, max(0, ceil(number / askers)))


def _levelled(wanted: Sequence[int], total: int) -> list[int]:
    """Returns the same for each, but what one does not want is for the others. Who stands first is first to
    have one more."""
    parts, left = [0] * len(wanted), total
    by_size = sorted(range(len(wanted)), key=lambda place: (wanted[place], -place))
    for number, place in enumerate(by_size):
        parts[place] = min(wanted[place], left // (len(wanted) - number))
        left -= parts[place]
    return parts
