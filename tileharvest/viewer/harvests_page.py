"""The page of harvests: those of a map, and how far an unfinished one is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from tileharvest.history.schema import FINISHED
from tileharvest.history.summaries import HarvestSummary, harvest_summaries
from tileharvest.monitoring.figures import RUNNING, Activity, Figures, State
from tileharvest.viewer.parameters import Parameters
from tileharvest.viewer.served_maps import TimedCache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileharvest.viewer.served_maps import ServedMaps

HARVESTS_AGE: Final = 3.0
"""Seconds for which an answer is used again: to count what a harvest has done reads all tiles of the map."""

_FIGURES: Final = (
    "tiles_done",
    "tiles_expected",
    "failures",
    "requests_per_second",
    "seconds_left",
    "stopped",
)
"""The figures that the answer takes from those of the commands; it has the others elsewhere."""


class HarvestsPage:
    """Answers for the page of harvests. May be used by several threads."""

    def __init__(self, workers: Callable[[str], int], clock: Callable[[], float] = time.monotonic) -> None:
        """`workers` returns how many harvest the map of that name now; a bool counts as 0 or 1."""
        self._workers = workers
        self._answers: TimedCache[Any] = TimedCache(HARVESTS_AGE, clock)

    def answer(self, served: ServedMaps, names: Sequence[str], query: Sequence[tuple[str, str]]) -> Any:
        """Answers with the harvests, newest first. For an unfinished one it reads all tiles of the map."""
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
            "harvests": [{"id": summary.id, **summary.as_plain()} for summary in reversed(summaries)],
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
            **_in_figures(summaries[-1], workers),
        }


def _in_figures(summary: HarvestSummary, workers: int) -> dict[str, Any]:
    """Returns how far it is, as the commands tell it; `expected` above is older."""
    state = RUNNING if workers else State(Activity.INTERRUPTED, stopped=summary.stopped)
    plain = Figures.of(summary, state, workers).as_plain()
    return {name: plain[name] for name in _FIGURES}
