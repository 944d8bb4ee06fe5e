"""What is known of a host by those who ask it, and what follows from that for one of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from tileharvest.maps.rates import LONGEST, Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileharvest.politeness.pace import Pace

HORIZON: Final = 0.5
"""Seconds by which requests are leased before they may start. What is leased is not taken back by a rest or
by another pace, so it is kept short."""

_AGAIN: Final = 0.1
_LESS_OFTEN: Final = 3
_AGAIN_WITHOUT_SHARE: Final = 0.5
"""Seconds after which it is worth asking again for what was held back. Of several processes that a gap holds
back any may find the next start, so each asks less often, up to so many times. One without a share has
long."""

_SET_BACK: Final = 60.0
"""Seconds by which a clock that was corrected may run behind; further back, times ahead of it mean
nothing."""


class Turn(msgspec.Struct, frozen=True):
    """The start of the last request. How long the next one waits is drawn with it, but from the gap that
    holds when the next one comes, so that another pace counts at once."""

    start: float
    chance: float
    """From 0 to 1."""


class Limits(msgspec.Struct, frozen=True):
    """Of the host, for all maps together."""

    concurrency: int | None
    gap: Gap


class Process(msgspec.Struct):
    """One that asks the host."""

    id: Annotated[str, msgspec.Meta(pattern=r"\A\d+-\w+\.alive\Z")]
    """The name of the file that it keeps locked. What was read and names anything else is never touched."""
    map: str
    concurrency: int
    """Requests that all processes of its map may have on the way."""
    told: int = 0
    """Its share, as it was told last."""
    counted: int = 0
    """The most that it may have on the way: what it was told before counts until it tells that it has
    less."""


class Host(msgspec.Struct):
    """All times are in seconds since 1970. Its size is bounded: past turns and ended processes leave it."""

    written: float = 0.0
    rests_until: float = 0.0
    probed_until: float = 0.0
    limits: Limits | None = None
    """None while nobody has set any: then whoever asks brings its own."""
    turn: Turn | None = None
    turns: dict[str, Turn] = {}
    """By map."""
    processes: list[Process] = []
    """Whoever came first stands first."""

    def age(self, now: float) -> None:
        """Forget what is over, and all times where the clock has been set back."""
        if now < self.written - _SET_BACK:
            self.rests_until = self.probed_until = 0.0
            self.turn, self.turns = None, {}
        self.turns = {name: turn for name, turn in self.turns.items() if turn.start > now - LONGEST}
        self.written = now

    def enlist(self, process: Process) -> None:
        """What the process knows of itself counts, also where it was forgotten here."""
        for place, known in enumerate(self.processes):
            if known.id == process.id:
                self.processes[place] = process
                return
        self.processes.append(process)

    def limit(self, pace: Pace) -> None:
        """The last one who sets a pace sets what holds for all of its host."""
        self.limits = _limits_of(pace)

    def rest(self, until: float) -> float:
        """Until when it rests now, which is not before `until`."""
        self.rests_until = max(self.rests_until, until)
        return self.rests_until

    def claim_probe(self, now: float, seconds: float) -> bool:
        """Whether nobody else has claimed it for now."""
        if self.probed_until > now:
            return False
        self.probed_until = now + seconds
        return True


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
    """Processes that ask the host."""
    has_gap: bool

    def ask_again(self, next_start: float, now: float, *, has_some: bool) -> float:
        """When to ask for what was held back, if the next request may start then; who has got some now leaves
        the next to others."""
        pause, ahead = _AGAIN, HORIZON / 2 if has_some and self.askers > 1 else HORIZON
        if not self.share:
            pause = _AGAIN_WITHOUT_SHARE
        elif next_start > now:
            pause = _AGAIN * min(self.askers, _LESS_OFTEN)
        return max(now + pause, self.rests_until or 0.0, next_start - ahead)


def stand(host: Host, own: Process, pace: Pace, *, in_flight: int, wanted: int, now: float) -> Standing:
    """Tell `own` its share, which is kept in it, and how many of the wanted requests it may lease."""
    host.enlist(own)
    limits = host.limits = host.limits or _limits_of(pace)
    share = _share(host, own, limits, in_flight)
    rests_until = host.rests_until if host.rests_until > now else None
    most = _starts_ahead(host, own, pace, limits, now, wanted) if share and rests_until is None else 0
    return Standing(
        share,
        min(wanted, most),
        rests_until,
        next_start(host, own, pace),
        len(host.processes),
        bool(pace.gap or limits.gap),
    )


def take_starts(
    host: Host, own: Process, pace: Pace, *, number: int, now: float, random: Callable[[], float]
) -> tuple[list[float], float]:
    """The starts of so many requests, and when the one after them may start. What was not used before is not
    saved up."""
    starts = []
    for _ in range(number):
        start = max(now, next_start(host, own, pace))
        host.turn, host.turns[own.map] = Turn(start, random()), Turn(start, random())
        starts.append(start)
    return starts, next_start(host, own, pace)


def next_start(host: Host, own: Process, pace: Pace) -> float:
    """By the gap of the map and that of the host; in the past where nothing is to be waited for."""
    limits = host.limits or _limits_of(pace)
    last = ((host.turns.get(own.map), pace.gap), (host.turn, limits.gap))
    return max((turn.start + gap.draw(turn.chance) for turn, gap in last if turn and gap), default=0.0)


def _limits_of(pace: Pace) -> Limits:
    return Limits(pace.host_concurrency, pace.host_gap)


def _starts_ahead(host: Host, own: Process, pace: Pace, limits: Limits, now: float, wanted: int) -> int:
    """How many of the wanted may be leased now, by the gaps.

    Divided among those who keep the gap together: else whoever asks first has all of them.
    """
    ahead = now + HORIZON - max(next_start(host, own, pace), now)
    for gap, askers in ((pace.gap, len(_mates(host, own))), (limits.gap, len(host.processes))):
        if gap:
            # A billionth, as the starts that were added up are not exact.
            number = floor(ahead / gap.mean + 1e-9) + 1
            wanted = min(wanted, max(0, ceil(number / askers)))
    return wanted


def _share(host: Host, own: Process, limits: Limits, in_flight: int) -> int:
    """A process counts with what it was told last, as it may start that much until it hears of less, and with
    what it has on the way; and it is told more only when that is left. So all together never have more on the
    way than the concurrency."""
    share = _fair_share(host, own, limits)
    if share > own.told:
        share = max(0, min(share, _left(host, own, limits)))
    own.counted = max(own.told, share, in_flight)
    own.told = share
    return share


def _fair_share(host: Host, own: Process, limits: Limits) -> int:
    """What it would have if all were told theirs."""
    shares = [_share_of_map(host, process) for process in host.processes]
    if limits.concurrency is not None:
        shares = _levelled(shares, limits.concurrency)
    return shares[host.processes.index(own)]


def _share_of_map(host: Host, process: Process) -> int:
    mates = _mates(host, process)
    return _levelled([process.concurrency] * len(mates), process.concurrency)[mates.index(process)]


def _levelled(wanted: Sequence[int], total: int) -> list[int]:
    """The same for each, but what one does not want is for the others; who stands first is first to have one
    more."""
    parts, left = [0] * len(wanted), total
    by_size = sorted(range(len(wanted)), key=lambda place: (wanted[place], -place))
    for number, place in enumerate(by_size):
        parts[place] = min(wanted[place], left // (len(wanted) - number))
        left -= parts[place]
    return parts


def _left(host: Host, own: Process, limits: Limits) -> int:
    """Of the concurrency of the map, and of the host, besides what the others may have on the way."""
    left = own.concurrency - sum(mate.counted for mate in _mates(host, own) if mate is not own)
    if limits.concurrency is not None:
        others = sum(other.counted for other in host.processes if other is not own)
        left = min(left, limits.concurrency - others)
    return left


def _mates(host: Host, process: Process) -> list[Process]:
    """All of its map, itself among them."""
    return [other for other in host.processes if other.map == process.map]
