"""What is known of how a map may be walked. Read only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, or_, select

from tileharvest.history.schema import harvests, layers, maps
from tileharvest.history.schema import proofs as kept_proofs
from tileharvest.history.skipping import is_full
from tileharvest.walk.proof import Proof, StoredProof

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from tileharvest.history.database import History


def proofs(history: History, map_name: str) -> Mapping[str, StoredProof]:
    """By layer, in the order in which they were first harvested; empty for an unknown map."""
    query = (
        select(layers.c.name, kept_proofs)
        .join_from(kept_proofs, layers, layers.c.id == kept_proofs.c.layer)
        .join(maps, maps.c.id == layers.c.map)
        .where(maps.c.name == map_name)
        .order_by(layers.c.id)
    )
    with history.reading() as connection:
        return {
            row.name: StoredProof(
                Proof(row.pairs, row.broken, row.undated, row.span),
                row.day,
                row.withdrawn,
                row.withdrawn_day,
            )
            for row in connection.execute(query)
        }


def last_full(history: History, map_name: str, kept: str | None = None) -> date | None:
    """The day of the map's last finished harvest that walked in full; None if there is none.

    With `kept`, what the map keeps now as `Harvest.walks` was told it: None too where any harvest since then,
    finished or not, kept something else, or that one did. What was not kept was not asked, so a tile that was
    unchanged then says nothing of what lies below it now.
    """
    of_map = select(maps.c.id).where(maps.c.name == map_name).scalar_subquery()
    full = select(func.max(harvests.c.id)).where(harvests.c.map == of_map, is_full())
    with history.reading() as connection:
        last = connection.execute(full).scalar()
        if last is None:
            return None
        # Where no walk is noted nothing has been asked yet.
        has_asked = or_(harvests.c.id == last, harvests.c.walk.is_not(None))
        since = select(harvests.c.day, harvests.c.kept).where(
            harvests.c.map == of_map, harvests.c.id >= last, has_asked
        )
        rows = connection.execute(since.order_by(harvests.c.id)).all()
    if kept is not None and any(row.kept != kept for row in rows):
        return None
    day: date = rows[0].day
    return day
