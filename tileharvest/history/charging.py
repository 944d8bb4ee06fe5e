"""What a batch has cost, and that it was recorded: the statements on a harvest's own rows."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from sqlalchemy import literal, select, update
from sqlalchemy.dialects import postgresql

from tileharvest.history.costs import Cost
from tileharvest.history.inserting import insert_into
from tileharvest.history.schema import batches, harvests, spending

if TYPE_CHECKING:
    from datetime import date

    from sqlalchemy import Update
    from sqlalchemy.sql.dml import ReturningInsert

    from tileharvest.history.inserting import Insert

COSTS = tuple(field.name for field in fields(Cost))
"""The columns of a cost, in `harvests` and in `spending`."""


def add_cost(harvest: int, cost: Cost) -> Update:
    """Locks the harvest's row until the transaction ends."""
    return (
        update(harvests)
        .where(harvests.c.id == harvest)
        .values({name: harvests.c[name] + getattr(cost, name) for name in COSTS})
    )


def add_spending(dialect: str, harvest: int, day: date, cost: Cost) -> Insert:
    """Adds it to what the harvest's map has cost on that day."""
    # With their types: PostgreSQL would take whole numbers for small ones.
    costs = (literal(getattr(cost, name), spending.c[name].type) for name in COSTS)
    row = select(harvests.c.map, literal(day), *costs).where(harvests.c.id == harvest)
    adding = insert_into(dialect, spending).from_select(["map", "day", *COSTS], row)
    return adding.on_conflict_do_update(
        index_elements=[spending.c.map, spending.c.day],
        set_={name: spending.c[name] + adding.excluded[name] for name in COSTS},
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
