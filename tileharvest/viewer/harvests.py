"""The harvests of a map, and whether one is under way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from tileharvest.history.schema import FINISHED
from tileharvest.history.summaries import HarvestProgress, HarvestSummary, harvest_summaries
from tileharvest.monitoring.figures import RUNNING, Activity, Figures, State
from tileharvest.tiles.outcomes import Outcome
from tileharvest.viewer.parameters import Parameters
from tileharvest.viewer.served import Remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileharvest.viewer.served import ServedMaps

HARVESTS_AGE: Final = 3.0
"""Seconds for which an answer is used again: what a harvest has done so far is counted over all tiles."""

_FIGURES: Final = (
    "tiles_done",
    "tiles_expected",
    "failures",
    "requests_per_second",
    "seconds_left",
    "stopped",
)
"""Of those that the commands tell: the answer has the others elsewhere."""


class Harvests:
    """Answers for the page of harvests. May be used by several threads."""

    def __init__(self, workers: Callable[[str], int], clock: Callable[[], float] = time.monotonic) -> None:
        """`workers` tells how many harvest the map of that name at this moment; a bool counts as 0 or 1."""
        self._workers = workers
        self._answers: Remembered[Any] = Remembered(HARVESTS_AGE, clock)

    def answer(self, served: ServedMaps, names: Sequence[str], query: Sequence[tuple[str, str]]) -> Any:
        """Newest first. Counting what an unfinished one has done reads all tiles of the map."""
        Parameters(query, ())
        name = names[0]
        if not served.entry(name).outline.days:
            return {"harvests": [], "running": None, "stored_bytes": 0}
        return self._answers.get(name, lambda: self._ask(served, name))

    def _ask(self, served: ServedMaps, name: str) -> Any:
        history = served.history
        assert history is not None  # it has days
        summaries = harvest_summaries(history, name)
        return {
            "harvests": [_plain(summary) for summary in reversed(summaries)],
            "running": self._running(name, summaries),
            "stored_bytes": sum(summary.stored_bytes for summary in summaries),
        }

    def _running(self, name: str, summaries: Sequence[HarvestSummary]) -> dict[str, Any] | None:
        if not summaries or summaries[-1].ended is not None:
            return None
        finished = [summary for summary in summaries if summary.reason == FINISHED]
        workers = int(self._workers(name))
        return {
            "done": sum(summaries[-1].counts.values()),
            "expected": sum(finished[-1].counts.values()) if finished else None,
            "active": workers > 0,
            **_in_figures(HarvestProgress.of(summaries[-1]), workers),
        }


def _in_figures(progress: HarvestProgress, workers: int) -> dict[str, Any]:
    """How far it is, as the commands tell it; `expected` above is as old as the API."""
    state = RUNNING if workers else State(Activity.INTERRUPTED, stopped=progress.stopped)
    plain = Figures.of(progress, state, workers).as_plain()
    return {name: plain[name] for name in _FIGURES}


def _plain(summary: HarvestSummary) -> dict[str, Any]:
    return {
        "id": summary.id,
        "segment": summary.segment,
        "day": summary.day.isoformat(),
        "started": summary.started.isoformat(),
        "ended": summary.ended.isoformat() if summary.ended else None,
        "reason": summary.reason,
        "stopped": summary.stopped,
        "renderer": summary.renderer,
        "depth": summary.depth,
        "counts": {
            outcome.value: summary.counts[outcome] for outcome in Outcome if summary.counts.get(outcome)
        },
        "walk": summary.walk,
        "walk_reason": summary.walk_reason,
        "requests": summary.requests,
        "received_bytes": summary.received_bytes,
        "stored_bytes": summary.stored_bytes,
        "spared_bytes": summary.spared_bytes,
        "seconds_worked": round(summary.seconds, 3),
    }
