"""The harvests of a map, and whether one is under way."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING, Any, Final

from tileharvest.history.ending import FINISHED
from tileharvest.history.reading import HarvestSummary, harvest_summaries
from tileharvest.outcomes import Outcome
from tileharvest.viewer.parameters import Parameters
from tileharvest.viewer.served import Remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tileharvest.viewer.served import ServedMaps

HARVESTS_AGE: Final = 3.0
"""Seconds for which an answer is used again: what a harvest has done so far is counted over all tiles."""


class Harvests:
    """Answers for the page of harvests. May be used by several threads."""

    def __init__(self, lock_of: Callable[[str], Path], clock: Callable[[], float] = time.monotonic) -> None:
        """`lock_of` gives the file that the process holds which harvests the map of that name."""
        self._lock_of = lock_of
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
        return {
            "done": sum(summaries[-1].counts.values()),
            "expected": sum(finished[-1].counts.values()) if finished else None,
            "active": is_locked(self._lock_of(name)),
        }


def is_locked(file: Path) -> bool:
    """Whether a process holds the file's lock, as the one that works on a queue does.

    Found out by taking the lock, shared and without waiting: that fails where it is held. A process that was
    killed holds nothing, and one in another container does, neither of which the number in the file would
    tell; /proc/locks does not show other containers either. The lock is taken for some microseconds, and
    only while the history has an unfinished harvest; a harvest that starts in just these tries again.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _plain(summary: HarvestSummary) -> dict[str, Any]:
    return {
        "id": summary.id,
        "segment": summary.segment,
        "day": summary.day.isoformat(),
        "started": summary.started.isoformat(),
        "ended": summary.ended.isoformat() if summary.ended else None,
        "reason": summary.reason,
        "renderer": summary.renderer,
        "depth": summary.depth,
        "counts": {
            outcome.value: summary.counts[outcome] for outcome in Outcome if summary.counts.get(outcome)
        },
        "requests": summary.requests,
        "received_bytes": summary.received_bytes,
        "stored_bytes": summary.stored_bytes,
    }
