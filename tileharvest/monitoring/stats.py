"""The stats of an unfinished harvest: how far it is, how fast it gets on, and what holds it up. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tileharvest.errors import counted, duration_in_words
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.politeness.waits import HoldReason
from tileharvest.tiles.outcomes import Outcome, counts_as_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.history.costs import Cost
    from tileharvest.history.summaries import HarvestSummary


class State(StrEnum):
    """What a harvest does at present."""

    BEGINNING = "beginning"
    """It asks for the site's configuration."""
    RUNNING = "running"
    WAITING = "waiting"
    """It waits for answers, or for requests that are due later."""
    PAUSED = "paused"
    QUIET = "quiet"
    """The map's quiet hours hold."""
    DOWN = "down"
    """The host does not answer."""
    ENDING = "ending"
    """Nothing more starts, for example because a budget is spent."""
    INTERRUPTED = "interrupted"
    """Nobody works on it. The map's next harvest will continue it."""

    @classmethod
    def of(cls, held: HoldReason | None, *, has_begun: bool = True, waits: bool = False) -> State:
        """Returns the state of a harvest whose requests are held back for this reason, if any. `waits` says
        that something else has held it up for some seconds."""
        otherwise = cls.BEGINNING if not has_begun else cls.WAITING if waits else cls.RUNNING
        return _HELD.get(held, otherwise)

    @property
    def is_at_work(self) -> bool:
        """Whether the harvest works, or will soon go on by itself."""
        return self in (State.RUNNING, State.WAITING)


_HELD: Final[Mapping[HoldReason | None, State]] = {
    HoldReason.PAUSED: State.PAUSED,
    HoldReason.QUIET: State.QUIET,
    HoldReason.DOWN: State.DOWN,
    HoldReason.ENDING: State.ENDING,
}

_WORDS: Final = {
    State.BEGINNING: "asking the site",
    State.WAITING: "waiting",
    State.PAUSED: "paused",
    State.QUIET: "quiet hours",
    State.DOWN: "the host does not answer",
    State.ENDING: "ending",
    State.INTERRUPTED: "nobody works on it",
}


def state_in_words(state: State, detail: str = "") -> str:
    """Returns a text such as `paused, since 2026-11-20 12:31 UTC`. It is empty for a harvest that runs."""
    words = "" if state is State.WAITING and detail else _WORDS.get(state)
    return ", ".join(filter(None, (words, detail)))


@dataclass(frozen=True, slots=True)
class HarvestStats:
    """An unfinished harvest at one moment: the sum of all processes that had a part in it."""

    expected: int
    """The number of tiles that were known when the harvest began. 0 for a map's first harvest."""
    counts: Mapping[Outcome, int]
    """Tiles per outcome, including tiles that are only provisionally `gone`."""
    cost: Cost
    state: State = State.RUNNING
    detail: str = ""
    """Since when or until when, or for what the harvest waits, in words. For an interrupted harvest it is why
    the last run ended. Empty if nobody knows."""
    is_pruned: bool = False
    """Whether the walk skips what lies below unchanged tiles. How many it skips is not known before its
    end."""
    workers: int = 1
    """The number of processes that work on it, at least one."""

    @classmethod
    def of(cls, progress: HarvestSummary, state: State, detail: str = "", workers: int = 1) -> HarvestStats:
        """Returns the stats of a harvest as the history has it."""
        pruned = progress.walk == "pruned"
        return cls(progress.expected, progress.counts, progress.cost, state, detail, pruned, max(1, workers))

    @property
    def done(self) -> int:
        """The number of tiles with a result. Like `expected`, it leaves out places without a tile."""
        return sum(self.counts.values()) - self.counts.get(Outcome.NOTHING, 0)

    @property
    def tiles_per_second(self) -> float | None:
        """The average rate of all workers together over the time worked, for tiles with a result. None if no
        time is known."""
        return self._per_second(self.done)

    def _per_second(self, number: int) -> float | None:
        return number * self.workers / self.cost.seconds if self.cost.seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the expected tiles are done at this rate, at least 0.

        None if that is not known: in a map's first harvest, in a pruned one, if more tiles are done than were
        expected, before the first tile is done, and when nobody works or may work.
        """
        rate = self.tiles_per_second
        if self.is_pruned or self.done > self.expected or not self.state.is_at_work or not rate:
            return None
        return (self.expected - self.done) / rate

    @property
    def is_held_up(self) -> bool:
        """Whether the harvest waits for its site, for a person or for an hour."""
        held = (State.WAITING, State.PAUSED, State.QUIET, State.DOWN)
        return self.state in held or (self.state is State.BEGINNING and self.detail != "")

    def as_plain(self) -> dict[str, Any]:
        """Returns the stats for programs. The keys are stable, and what is not known is None."""
        requests, tiles = self._per_second(self.cost.requests), self.tiles_per_second
        left = self.seconds_left
        is_interrupted = self.state is State.INTERRUPTED
        return {
            "state": self.state.value,
            "detail": None if is_interrupted else self.detail or None,
            "stopped": self.detail or None if is_interrupted else None,
            "walk": "pruned" if self.is_pruned else "full",
            "tiles_done": self.done,
            "tiles_expected": self.expected or None,
            "failures": self.counts.get(Outcome.FAILED, 0),
            "counts": counts_as_plain(self.counts),
            "requests": self.cost.requests,
            "received_bytes": self.cost.received_bytes,
            "seconds_worked": round(self.cost.seconds, 3),
            "requests_per_second": None if requests is None else round(requests, 2),
            "tiles_per_second": None if tiles is None else round(tiles, 2),
            "seconds_left": None if left is None else round(left),
        }

    @property
    def in_words(self) -> str:
        """All stats in one line. The reason of a wait stands first.

        An example is `120 of about 300 tiles, 40 %; 100 unchanged, 20 changed; 141 requests, 2.0 MB; 12.3
        tiles/s, 15 s left`.
        """
        state, found = state_in_words(self.state, self.detail), self._found_in_words
        return "; ".join(filter(None, (state, self._tiles_in_words, found, self.speed_in_words)))

    @property
    def in_short(self) -> str:
        """What stands beside the bar of a harvest, such as `120/300 tiles  12.3 tiles/s, 15 s left`."""
        of = f"/{self.expected:,}" if self.expected and not self.is_pruned else ""
        return f"{self.done:,}{of} tiles  {self.speed_in_words or state_in_words(self.state)}"

    @property
    def below_bar(self) -> str:
        """What stands below the bar: for what the harvest waits, and what it has found."""
        return "; ".join(filter(None, (self.detail, self._found_in_words)))

    @property
    def _found_in_words(self) -> str:
        cost = f"{counted(self.cost.requests, 'request')}, {bytes_in_words(self.cost.received_bytes)}"
        return f"{outcomes_in_words(self.counts) or 'none found yet'}; {cost}"

    @property
    def _tiles_in_words(self) -> str:
        done, expected = self.done, self.expected
        if not expected:
            return counted(done, "tile")
        if self.is_pruned:
            return f"{counted(done, 'tile')} in a pruned walk of about {expected:,}"
        if done > expected:
            return f"{counted(done, 'tile')}, where about {expected:,} were expected"
        return f"{done:,} of about {expected:,} tiles, {100 * done // expected} %"

    @property
    def speed_in_words(self) -> str:
        """The rate and the time left, or an empty text while the harvest does not work."""
        rate, left = self.tiles_per_second, self.seconds_left
        if rate is None or not self.state.is_at_work:
            return ""
        return f"{rate:,.1f} tiles/s" + ("" if left is None else f", {duration_in_words(left)} left")


FOR_PEOPLE: Final = {
    "new": (Outcome.ADDED,),
    "changed": (Outcome.UPDATED, Outcome.REPLACED),
    "gone": (Outcome.GONE,),
    "unchanged": (Outcome.IGNORED, Outcome.NOT_MODIFIED),
    "skipped": (Outcome.SKIPPED,),
    "empty": (Outcome.NOTHING,),
    "failed": (Outcome.FAILED,),
}
"""The words for people, and the outcomes that each of them counts together."""


def outcomes_in_words(counts: Mapping[Outcome, int]) -> str:
    """Returns the outcomes that occurred, in plain words, such as `298 new, 12 changed, 82 empty`."""
    sums = {words: sum(counts.get(one, 0) for one in together) for words, together in FOR_PEOPLE.items()}
    return ", ".join(f"{number:,} {words}" for words, number in sums.items() if number)
