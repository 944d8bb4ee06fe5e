"""The figures of a running harvest: its progress, its rate and its state. Pure."""

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
"""Seconds over which a rate is taken. The rate follows a change within a minute, and does not jump."""
LEAST_SPAN: Final = 5.0
"""Seconds that a rate must cover at least. A single answer is no rate."""
UNANSWERED: Final = 10.0
"""Seconds without an answer after which a harvest counts as waiting. This is longer than most pauses between
requests, and shorter than the first pause before a failing host is probed."""
_SPACING: Final = 1.0
"""The least seconds between two kept moments. At most about WINDOW moments are kept."""


class Activity(StrEnum):
    """The present activity of a harvest."""

    BEGINNING = "beginning"
    """The harvest asks for the site's configuration."""
    RUNNING = "running"
    WAITING = "waiting"
    """The harvest waits for answers, or for requests that are due later."""
    PAUSED = "paused"
    QUIET = "quiet"
    """The map's quiet hours hold."""
    DOWN = "down"
    """The host does not answer."""
    ENDING = "ending"
    """A budget is spent."""
    INTERRUPTED = "interrupted"
    """Nobody works on the harvest. The map's next harvest will continue it."""


@dataclass(frozen=True, slots=True)
class State:
    """The activity of a harvest, since when and until when. The times are words for a person."""

    activity: Activity
    paused_since: str | None = None
    quiet_until: str | None = None
    wait: tuple[str, str | None] | None = None
    """A further reason why the harvest waits, in words that follow `waiting for`, and when that wait ends at
    the latest, or None if nobody knows."""
    stopped: str | None = None
    """Why the last run ended, such as `budget: 1,000 requests`. None if it still runs or was killed."""

    @classmethod
    def of(
        cls,
        reasons: Collection[Reason],
        *,
        has_begun: bool = True,
        is_idle: bool = False,
        paused_since: str | None = None,
        quiet_until: str | None = None,
        wait: tuple[str, str | None] | None = None,
    ) -> State:
        """Returns the state that follows from the reasons for which requests are held back.

        If there are several reasons, the one that only a person can end goes first.
        """
        if Reason.PAUSED in reasons:
            return cls(Activity.PAUSED, paused_since=paused_since)
        if Reason.QUIET in reasons:
            return cls(Activity.QUIET, quiet_until=quiet_until)
        if Reason.DOWN in reasons:
            return cls(Activity.DOWN, wait=wait)
        if Reason.SPENT in reasons:
            return cls(Activity.ENDING)
        if not has_begun:
            return cls(Activity.BEGINNING, wait=wait)
        return cls(Activity.WAITING, wait=wait) if is_idle or wait else RUNNING

    @property
    def is_at_work(self) -> bool:
        """Whether the harvest works, or will soon go on by itself."""
        return self.activity in (Activity.RUNNING, Activity.WAITING)

    @property
    def is_held_up(self) -> bool:
        """Whether the harvest waits for its site, for a person or for an hour."""
        return self.activity in (Activity.WAITING, Activity.PAUSED, Activity.QUIET, Activity.DOWN)


RUNNING: Final = State(Activity.RUNNING)


def moment_in_words(moment: datetime | None) -> str | None:
    """Returns the moment in words, to the minute and with its zone. Returns None for None."""
    return None if moment is None else f"{moment:%Y-%m-%d %H:%M %Z}"


class Rate(NamedTuple):
    """The rate of all processes together, per second."""

    requests: float
    tiles: float


class Recent:
    """The progress of a harvest over the last minute. Moments are seconds of one clock of the caller."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, int, int]] = deque()
        """Moments with the numbers of requests and tiles that were done by then, at least `_SPACING`
        apart."""
        self._latest = (0.0, 0, 0)
        self._changed = 0.0
        """When the numbers last changed."""

    def add(self, moment: float, requests: int, tiles: int) -> None:
        """Notes the numbers at a moment, which must not be earlier than the last one."""
        kept = self._kept
        if not kept or self._latest[1:] != (requests, tiles):
            self._changed = moment
        self._latest = (moment, requests, tiles)
        if not kept or moment - kept[-1][0] >= _SPACING:
            kept.append(self._latest)
        while len(kept) > 1 and moment - kept[1][0] >= WINDOW:
            kept.popleft()

    def clear(self) -> None:
        """Forgets all moments. Call it when the harvest could not work, for example because it was paused."""
        self._kept.clear()

    def rate(self) -> Rate | None:
        """Returns the rate of the last minute, or None if less than LEAST_SPAN seconds are known."""
        if not self._kept:
            return None
        seconds, requests, tiles = (now - then for now, then in zip(self._latest, self._kept[0], strict=True))
        if seconds < LEAST_SPAN:
            return None
        # A tile that is recorded again may change its outcome, so that a count can become smaller.
        return Rate(max(0, requests) / seconds, max(0, tiles) / seconds)

    def is_idle(self, moment: float) -> bool:
        """Returns whether the numbers have not changed for UNANSWERED seconds."""
        return bool(self._kept) and moment - self._changed >= UNANSWERED


@dataclass(frozen=True, slots=True)
class Figures:
    """An unfinished harvest at one moment: the sum of all processes that had a part in it."""

    expected: int
    """The number of tiles that were known when the harvest began. 0 for a map's first harvest."""
    counts: Mapping[Outcome, int]
    """Tiles per outcome, including tiles that are only provisionally `gone`."""
    cost: Cost
    state: State = RUNNING
    rate: Rate | None = None
    """The rate of the last minute, or else the average. None if neither is known."""
    is_pruned: bool = False
    """Whether the walk skips what lies below unchanged tiles.

    How many tiles it skips is not known before its end. The history counts the skipped tiles that the walk
    has reached. A process that counts its own work counts none.
    """

    @classmethod
    def of(cls, progress: HarvestSummary, state: State, workers: int = 1) -> Figures:
        """Returns the figures as the history tells them. The rate is the average of so many workers
        together."""
        figures = cls(
            progress.expected,
            progress.counts,
            progress.cost,
            state,
            is_pruned=progress.walk == "pruned",
        )
        return replace(figures, rate=figures.average(workers))

    def average(self, workers: int = 1) -> Rate | None:
        """Returns the rate over the time worked, times the number of workers (at least one).

        Returns None if no time is known.
        """
        if self.cost.seconds <= 0:
            return None
        share = max(1, workers) / self.cost.seconds
        return Rate(self.cost.requests * share, self.done * share)

    @property
    def done(self) -> int:
        """The number of tiles with a result. Like `expected`, it leaves out places without a tile."""
        return sum(self.counts.values()) - self.counts.get(Outcome.NOTHING, 0)

    @property
    def failures(self) -> int:
        """The number of failed tiles."""
        return self.counts.get(Outcome.FAILED, 0)

    @property
    def is_beyond(self) -> bool:
        """Whether more tiles are done than were expected. Then nobody knows how many are left."""
        return 0 < self.expected < self.done

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the expected tiles are done at the present rate, at least 0.

        None if that is not known: in a map's first harvest, in a pruned one, if more tiles are done than were
        expected, before the first tile is done, and when nobody works or may work.
        """
        if not self.expected or self.is_pruned or self.is_beyond or not self.state.is_at_work:
            return None
        if self.rate is None or self.rate.tiles <= 0:
            return None
        return (self.expected - self.done) / self.rate.tiles

    @property
    def tiles_per_second(self) -> float:
        """The present rate. It is 0 if it is not known, and if the harvest does not work."""
        return self.rate.tiles if self.rate is not None and self.state.is_at_work else 0.0

    def as_plain(self) -> dict[str, Any]:
        """Returns what programs are told. The keys are stable, and what is not known is None."""
        left = self.seconds_left
        waits_for, waits_until = self.state.wait or (None, None)
        return {
            "state": self.state.activity.value,
            "paused_since": self.state.paused_since,
            "quiet_until": self.state.quiet_until,
            "waits_for": waits_for,
            "waits_until": waits_until,
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
    """The sum of several harvests at one moment."""

    done: int = 0
    """The number of harvests that are over, however they ended."""
    under_way: int = 0
    waiting: int = 0
    """The number of harvests under way that something holds up."""
    tiles: int = 0
    failures: int = 0
    requests: int = 0
    received_bytes: int = 0
    tiles_per_second: float = 0.0

    def with_ended(self, figures: Figures | None) -> Whole:
        """Returns the sum with one more harvest that is over. The figures of one that never began are
        None."""
        ended = replace(self, done=self.done + 1)
        return ended if figures is None else ended._with(figures)

    def with_running(self, figures: Iterable[Figures]) -> Whole:
        """Returns the sum with the harvests that are under way."""
        whole = self
        for one in figures:
            whole = replace(
                whole._with(one),
                under_way=whole.under_way + 1,
                waiting=whole.waiting + one.state.is_held_up,
                tiles_per_second=whole.tiles_per_second + one.tiles_per_second,
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
        """Returns how many maps are done, such as `3/40 maps`. `maps` is None if there is no end of them."""
        return f"{self.done:,}/{counted(maps, 'map')}" if maps is not None else self._done_in_words

    @property
    def _done_in_words(self) -> str:
        return f"{counted(self.done, 'map')} done"

    @property
    def work_in_words(self) -> str:
        """The failures, requests, bytes and rate in few words."""
        failed = f"fail {self.failures:,}  " if self.failures else ""
        size = bytes_in_words(self.received_bytes)
        return f"{failed}{counted(self.requests, 'request')}  {size}  {self.tiles_per_second:,.1f} tiles/s"

    def in_words(self, maps: int | None) -> str:
        """Returns the whole sum in one line."""
        done = self._done_in_words if maps is None else f"{self.done:,} of {counted(maps, 'map')} done"
        parts = [
            f"{done}, {self.under_way:,} under way"
            + (f" of which {self.waiting:,} wait" if self.waiting else ""),
            counted(self.tiles, "tile") + (f", {self.failures:,} failed" if self.failures else ""),
            f"{counted(self.requests, 'request')}, {bytes_in_words(self.received_bytes)}",
            f"{self.tiles_per_second:,.1f} tiles/s",
        ]
        return "; ".join(parts)
