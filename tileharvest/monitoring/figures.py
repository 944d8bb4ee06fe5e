"""How far a harvest is, how fast it gets on, and what holds it up: the value that everything shows. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tileharvest.errors import counted
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.politeness.reasons import Reason
from tileharvest.tiles.outcomes import Outcome, counts_as_plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from tileharvest.history.costs import Cost
    from tileharvest.history.summaries import HarvestSummary

WINDOW: Final = 60.0
"""Seconds over which a rate is taken: it follows a change within a minute and does not jump."""
LEAST_SPAN: Final = 5.0
"""Seconds that must have been seen before a rate is told: a single answer is no rate."""
UNANSWERED: Final = 10.0
"""Seconds without an answer after which the harvest is said to wait. This is longer than most pauses between
requests, and shorter than the first pause before a host that fails is probed."""
_SPACING: Final = 1.0
"""Seconds that lie at least between two kept moments, so that about WINDOW of them are kept at most."""


class Activity(StrEnum):
    """What a harvest does."""

    BEGINNING = "beginning"
    """The site is asked what there is."""
    RUNNING = "running"
    WAITING = "waiting"
    """For answers, or for what is due later."""
    PAUSED = "paused"
    QUIET = "quiet"
    """The map's quiet hours hold."""
    DOWN = "down"
    """The host does not answer."""
    ENDING = "ending"
    """A budget is spent."""
    INTERRUPTED = "interrupted"
    """Nobody works on it; the map's next harvest goes on with it."""


@dataclass(frozen=True, slots=True)
class State:
    """What a harvest does, and since when or until when. The times are in words, for a person."""

    activity: Activity
    paused_since: str | None = None
    quiet_until: str | None = None
    waits_for: str | None = None
    """What holds it up otherwise, as it stands behind `waiting for`."""
    waits_until: str | None = None
    """When that ends at the latest, where it is known."""
    stopped: str | None = None
    """Why the last run ended, such as `budget: 1,000 requests`; None if it goes on, or if it was killed."""

    @classmethod
    def of(
        cls,
        reasons: Collection[Reason],
        *,
        has_begun: bool = True,
        is_idle: bool = False,
        paused_since: str | None = None,
        quiet_until: str | None = None,
        waits_for: str | None = None,
        waits_until: str | None = None,
    ) -> State:
        """Returns the state that follows from the reasons for which requests are held back.

        Of several reasons that goes first which only a person can end.
        """
        if Reason.PAUSED in reasons:
            return cls(Activity.PAUSED, paused_since=paused_since)
        if Reason.QUIET in reasons:
            return cls(Activity.QUIET, quiet_until=quiet_until)
        waits = {"waits_for": waits_for, "waits_until": waits_until}
        if Reason.DOWN in reasons:
            return cls(Activity.DOWN, **waits)
        if Reason.SPENT in reasons:
            return cls(Activity.ENDING)
        if not has_begun:
            return cls(Activity.BEGINNING, **waits)
        return cls(Activity.WAITING, **waits) if is_idle or waits_for else RUNNING

    @property
    def is_at_work(self) -> bool:
        """Whether anything will get on by itself, and soon."""
        return self.activity in (Activity.RUNNING, Activity.WAITING)

    @property
    def is_held_up(self) -> bool:
        """Whether the harvest waits for its site, for a person or for an hour."""
        return self.activity in (Activity.WAITING, Activity.PAUSED, Activity.QUIET, Activity.DOWN)


RUNNING: Final = State(Activity.RUNNING)


def moment_in_words(moment: datetime | None) -> str | None:
    """Returns the moment as a state tells it: to the minute, and with its zone. None stays None."""
    return None if moment is None else f"{moment:%Y-%m-%d %H:%M %Z}"


class Rate(NamedTuple):
    """What all processes together do per second."""

    requests: float
    tiles: float


class Recent:
    """How fast a harvest got on over the last minute. Moments are seconds on one clock of the caller's."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, int, int]] = deque()
        """Moments, `_SPACING` apart at least, with the requests and tiles that were done until then."""
        self._latest = (0.0, 0, 0)
        self._changed = 0.0
        """When the numbers last changed."""

    def add(self, moment: float, requests: int, tiles: int) -> None:
        """Notes what was done until that moment, which must not be before the last one."""
        kept = self._kept
        if not kept or self._latest[1:] != (requests, tiles):
            self._changed = moment
        self._latest = (moment, requests, tiles)
        if not kept or moment - kept[-1][0] >= _SPACING:
            kept.append(self._latest)
        while len(kept) > 1 and moment - kept[1][0] >= WINDOW:
            kept.popleft()

    def clear(self) -> None:
        """Forgets all, as nothing could get on: the map was paused, for example."""
        self._kept.clear()

    def rate(self) -> Rate | None:
        """Returns the rate of the last minute, or None until LEAST_SPAN was seen."""
        if not self._kept:
            return None
        seconds, requests, tiles = (now - then for now, then in zip(self._latest, self._kept[0], strict=True))
        if seconds < LEAST_SPAN:
            return None
        # A result that is recorded anew may be counted less than before.
        return Rate(max(0, requests) / seconds, max(0, tiles) / seconds)

    def is_idle(self, moment: float) -> bool:
        """Tells whether nothing at all has come for UNANSWERED seconds."""
        return bool(self._kept) and moment - self._changed >= UNANSWERED


@dataclass(frozen=True, slots=True)
class Figures:
    """An unfinished harvest at one moment, all processes that had a part in it together."""

    expected: int
    """Tiles that were known when it began; it will find about as many. 0 for a map's first harvest."""
    counts: Mapping[Outcome, int]
    """Tiles per outcome; those that are `gone` only provisionally count too."""
    cost: Cost
    state: State = RUNNING
    rate: Rate | None = None
    """The rate of the last minute; where that is not known, the average; None where neither is known."""
    is_pruned: bool = False
    """Whether it skips what lies below unchanged tiles. How many tiles that will be is not known before its
    end. The history counts those that the walk has come to; a process that counts itself counts none."""

    @classmethod
    def of(cls, progress: HarvestSummary, state: State, workers: int = 1) -> Figures:
        """Returns what the history alone tells. The rate is the average, times the number of workers."""
        figures = cls(
            progress.expected,
            progress.counts,
            progress.cost,
            state,
            is_pruned=progress.walk == "pruned",
        )
        return replace(figures, rate=figures.average(workers))

    def average(self, workers: int = 1) -> Rate | None:
        """Returns the rate over the time worked, times the number of workers, at least one.

        Returns None where no time is known.
        """
        if self.cost.seconds <= 0:
            return None
        share = max(1, workers) / self.cost.seconds
        return Rate(self.cost.requests * share, self.done * share)

    @property
    def done(self) -> int:
        """Tiles with a result. Places with nothing do not count, as they do not in `expected`."""
        return sum(self.counts.values()) - self.counts.get(Outcome.NOTHING, 0)

    @property
    def failures(self) -> int:
        """Tiles that failed."""
        return self.counts.get(Outcome.FAILED, 0)

    @property
    def is_beyond(self) -> bool:
        """Whether more is done than was expected, so that it is not known how much is left."""
        return 0 < self.expected < self.done

    @property
    def seconds_left(self) -> float | None:
        """Seconds until as many tiles are done as are expected, at the present rate; at least 0.

        None where that is not known: in a map's first harvest, in a pruned one, beyond what was expected,
        while no tile is done, and while nobody works or is allowed to.
        """
        if not self.expected or self.is_pruned or self.is_beyond or not self.state.is_at_work:
            return None
        if self.rate is None or self.rate.tiles <= 0:
            return None
        return (self.expected - self.done) / self.rate.tiles

    def as_plain(self) -> dict[str, Any]:
        """Returns what programs are told: the names stay, and what is not known is None."""
        left = self.seconds_left
        return {
            "state": self.state.activity.value,
            "paused_since": self.state.paused_since,
            "quiet_until": self.state.quiet_until,
            "waits_for": self.state.waits_for,
            "waits_until": self.state.waits_until,
            "stopped": self.state.stopped,
            "walk": "pruned" if self.is_pruned else "full",
            "tiles_done": self.done,
            "tiles_expected": self.expected or None,
            "failures": self.failures,
            "counts": counts_as_plain(self.counts),
            "requests": self.cost.requests,
            "received_bytes": self.cost.received_bytes,
            "seconds_worked": round(self.cost.seconds, 3),
            "requests_per_second": None if self.rate is None else round(self.rate.requests, 2),
            "tiles_per_second": None if self.rate is None else round(self.rate.tiles, 2),
            "seconds_left": None if left is None else round(left),
        }


@dataclass(frozen=True, slots=True)
class Whole:
    """Several harvests together, at one moment."""

    done: int = 0
    """Harvests that are over, however they ended."""
    under_way: int = 0
    waiting: int = 0
    """Harvests under way that something holds up."""
    tiles: int = 0
    failures: int = 0
    requests: int = 0
    received_bytes: int = 0
    tiles_per_second: float = 0.0

    def with_ended(self, figures: Figures | None) -> Whole:
        """Returns it with one more harvest that is over. Nothing is known of one that never began."""
        ended = replace(self, done=self.done + 1)
        return ended if figures is None else ended._with(figures)

    def with_running(self, figures: Iterable[Figures]) -> Whole:
        """Returns it with the harvests that are under way."""
        whole = self
        for one in figures:
            is_at_work = one.state.is_at_work
            rate = one.rate.tiles if one.rate is not None and is_at_work else 0.0
            whole = replace(
                whole._with(one),
                under_way=whole.under_way + 1,
                waiting=whole.waiting + (one.state.is_held_up),
                tiles_per_second=whole.tiles_per_second + rate,
            )
        return whole

    def _with(self, figures: Figures) -> Whole:
        return replace(
            self,
            tiles=self.tiles + figures.done,
            failures=self.failures + figures.failures,
            requests=self.requests + figures.cost.requests,
            received_bytes=self.received_bytes + figures.cost.received_bytes,
        )

    def maps_in_words(self, maps: int | None) -> str:
        """Says how many maps are done, of so many where there is an end of them."""
        return f"{self.done:,}/{counted(maps, 'map')}" if maps is not None else self._done_in_words

    @property
    def _done_in_words(self) -> str:
        return f"{counted(self.done, 'map')} done"

    @property
    def work_in_words(self) -> str:
        """Says in few words what was asked for, and how fast."""
        failed = f"fail {self.failures:,}  " if self.failures else ""
        size = bytes_in_words(self.received_bytes)
        return f"{failed}{counted(self.requests, 'request')}  {size}  {self.tiles_per_second:,.1f} tiles/s"

    def in_words(self, maps: int | None) -> str:
        """Says everything in one line."""
        done = self._done_in_words if maps is None else f"{self.done:,} of {counted(maps, 'map')} done"
        parts = [
            f"{done}, {self.under_way:,} under way"
            + (f" of which {self.waiting:,} wait" if self.waiting else ""),
            counted(self.tiles, "tile") + (f", {self.failures:,} failed" if self.failures else ""),
            f"{counted(self.requests, 'request')}, {bytes_in_words(self.received_bytes)}",
            f"{self.tiles_per_second:,.1f} tiles/s",
        ]
        return "; ".join(parts)
