"""The overview of a queue and its workers at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tileharvest.maps.rates import rate_in_words
from tileharvest.queue.controls import Controls, controls_of
from tileharvest.queue.port import Counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileharvest.queue.port import RequestQueue, Worker


def workers_as_plain(workers: Sequence[Worker]) -> list[dict[str, Any]]:
    """Returns a queue's workers for programs. The keys are stable."""
    return [
        {
            "host": worker.host,
            "machine": worker.machine,
            "pid": worker.pid,
            "segment": worker.segment,
            "started": datetime.fromtimestamp(worker.started, UTC).isoformat(timespec="seconds"),
            # A worker may have been heard of after the look.
            "heartbeat_age_seconds": round(max(0.0, worker.looked_at - worker.heartbeat), 3),
            "finished": worker.finished,
            "leased": worker.leased,
        }
        for worker in workers
    ]


@dataclass(frozen=True, slots=True)
class Overview:
    """A queue at one moment."""

    counts: Counts
    workers: Sequence[Mapping[str, Any]] | None = None
    """The workers in the form of `workers_as_plain`, the oldest first. None for a local queue, which knows of
    no workers."""
    controls: Controls = field(default_factory=Controls)

    def as_plain(self) -> dict[str, Any]:
        """Returns the overview for programs. The keys are stable, and what is not known is None."""
        return {
            **self.counts.as_plain(),
            "workers": self.workers,
            "paused": self.controls.paused,
            "rate": None if self.controls.rate is None else rate_in_words(self.controls.rate),
        }


NOTHING: Final = Overview(Counts())
"""The overview of a map that was never harvested."""


async def look(queue: RequestQueue, segment: str | None, now: float) -> Overview:
    """Returns the overview of an open queue. `now` is the present time in seconds since 1970.

    The queue may change meanwhile. Raises QueueError.
    """
    controls, counts = await controls_of(queue), await queue.counts(segment, now)
    workers = await queue.workers()
    return Overview(counts, None if workers is None else workers_as_plain(workers), controls)
