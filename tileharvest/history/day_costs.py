"""What each map has cost on each day, by all of its runs, dry ones included."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, select

from tileharvest.history.costs import NO_COST, Cost
from tileharvest.history.outlines import own_map_id
from tileharvest.history.schema import insert_into, maps, spending

if TYPE_CHECKING:
    from datetime import date

    from sqlalchemy import Connection

    from tileharvest.history.database import History
    from tileharvest.history.schema import Insert

COST_COLUMNS: Final = tuple(field.name for field in fields(Cost))
"""The columns of a cost, in `harvests` and in `spending`."""


_SPENT: Final = (
    select(*(spending.c[name] for name in COST_COLUMNS))
    .join_from(spending, maps, maps.c.id == spending.c.map)
    .where(maps.c.name == bindparam("map_name"), spending.c.day == bindparam("on_day"))
)


def spent(history: History, map_name: str, day: date) -> Cost:
    """Returns what all harvests of the map have cost on that day, whatever day they are of.

    An unknown map has cost nothing. Reads one row.
    """
    with history.reading() as connection:
        row = connection.execute(_SPENT, {"map_name": map_name, "on_day": day}).first()
    return NO_COST if row is None else Cost(*row)


def spend(history: History, map_name: str, day: date, cost: Cost) -> None:
    """Adds the cost of a dry run, of which nothing else is kept, to what the map has cost on that day.

    An unknown map becomes known. Where a server goes away just then the cost may count twice. Raises
    HistoryError.
    """

    def write(connection: Connection) -> None:
        add_spending(connection, own_map_id(connection, map_name), day, cost)

    history.write(write)


def add_spending(connection: Connection, map_id: int, day: date, cost: Cost) -> None:
    """Adds the cost to what a map has cost on that day."""
    row = {"map": map_id, "day": day, **{name: getattr(cost, name) for name in COST_COLUMNS}}
    connection.execute(_adding(connection.dialect.name), row)


@cache
def _adding(dialect: str) -> Insert:
    """Made once: to make it takes longer than to carry it out."""
    adding = insert_into(dialect, spending).values({one.name: bindparam(one.name) for one in spending.c})
    return adding.on_conflict_do_update(
        index_elements=[spending.c.map, spending.c.day],
        set_={name: spending.c[name] + adding.excluded[name] for name in COST_COLUMNS},
    )
