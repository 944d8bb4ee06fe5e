"""How far a map's unfinished harvest is, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from tileharvest.history.reading import harvest_summary
from tileharvest.history.schema import harvests, maps

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from tileharvest.history.costs import Cost
    from tileharvest.history.database import History
    from tileharvest.history.reading import HarvestSummary
    from tileharvest.tiles.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class HarvestProgress:
    """What an unfinished harvest has done so far, all processes that had a part in it together. What follows
    from that, as how much is left, `tileharvest.monitoring.figures` tells."""

    segment: str
    day: date
    started: datetime
    """UTC."""
    stopped: str | None
    """Why its last run ended, such as `budget: 1,000 requests`; None while one goes on, or was killed."""
    expected: int
    """Tiles known when it began: about as many as it will find. 0 for a map's first harvest."""
    counts: Mapping[Outcome, int]
    """Tiles per outcome, only those that occurred; provisional `gone` ones too."""
    cost: Cost
    walk: str | None = None
    """`full`, `pruned` or `repaired`; None before that was decided."""

    @classmethod
    def of(cls, summary: HarvestSummary) -> HarvestProgress:
        return cls(
            summary.segment,
            summary.day,
            summary.started,
            summary.stopped,
            summary.expected,
            summary.counts,
            summary.cost,
            summary.walk,
        )


def progress_of(history: History, map_name: str) -> HarvestProgress | None:
    """That of the map's unfinished harvest; None if there is none, or no such map.

    Reads all tiles of the map: ask once a second at most.
    """
    query = (
        select(harvests)
        .join_from(harvests, maps, maps.c.id == harvests.c.map)
        .where(maps.c.name == map_name, harvests.c.ended.is_(None))
    )
    with history.reading() as connection:
        row = connection.execute(query).one_or_none()
        return None if row is None else HarvestProgress.of(harvest_summary(connection, row))
