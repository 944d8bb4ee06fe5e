"""What a batch has cost, and that it was recorded: the statements on a harvest's own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import update
from sqlalchemy.dialects import postgresql

from tileharvest.history.schema import batches, harvests

if TYPE_CHECKING:
    from sqlalchemy import Update
    from sqlalchemy.sql.dml import ReturningInsert

    from tileharvest.history.costs import Cost


def add_cost(harvest: int, cost: Cost) -> Update:
    """Locks the harvest's row until the transaction ends."""
    return (
        update(harvests)
        .where(harvests.c.id == harvest)
        .values(
            requests=harvests.c.requests + cost.requests,
            received_bytes=harvests.c.received_bytes + cost.received_bytes,
            stored_bytes=harvests.c.stored_bytes + cost.stored_bytes,
            spared_bytes=harvests.c.spared_bytes + cost.spared_bytes,
            seconds=harvests.c.seconds + cost.seconds,
        )
    )


def note_batch(harvest: int, worker: str, number: int) -> ReturningInsert[tuple[int]]:
    """Gives a row, but none when the worker has recorded the batch of this number, or a later one, already.

    Waits for a transaction that records it just now: that of a connection which was lost may still run.
    """
    statement = postgresql.insert(batches).values(harvest=harvest, worker=worker, number=number)
    noted = statement.on_conflict_do_update(
        index_elements=list(batches.primary_key.columns),
        set_={"number": statement.excluded.number},
        where=batches.c.number < statement.excluded.number,
    )
    return noted.returning(batches.c.number)
