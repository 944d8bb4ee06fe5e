"""What each map has cost on each day, by all of its runs, dry ones included."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from sqlalchemy import literal, select

from tileharvest.history.costs import NO_COST, Cost
from tileharvest.history.schema import insert_into, maps, spending

if TYPE_CHECKING:
    from datetime import date

    from sqlalchemy import Connection, Select

    from tileharvest.history.database import History

COST_COLUMNS: Final = tuple(field.name for field in fields(Cost))
"""The columns of a cost, in `harvests` and in `spending`."""


def spent(history: History, map_name: str, day: date) -> Cost:
    """Returns what all harvests of the map have cost on that day, whatever day they are of; no cost for an
    unknown map. Reads one row."""
    query = (
        select(*(spending.c[name] for name in COST_COLUMNS))
        .join_from(spending, maps, maps.c.id == spending.c.map)
        .where(maps.c.name == map_name, spending.c.day == day)
    )
    with history.reading() as connection:
        row = connection.execute(query).first()
    return NO_COST if row is None else Cost(*row)


def spend(history: History, map_name: str, day: date, cost: Cost) -> None:
    """Adds the cost of a dry run, of which nothing else is kept, to what the map has cost on that day.

    An unknown map becomes known. Where a server goes away just then the cost may count twice. Raises
    HistoryError.
    """

    def write(connection: Connection) -> None:
        map_id = own_map_id(connection, map_name)
        add_spending(connection, select(maps.c.id).where(maps.c.id == map_id), day, cost)

    history.write(write)


def add_spending(connection: Connection, map_id: Select[int], day: date, cost: Cost) -> None:
    """Adds the cost to what a map has cost on that day. `map_id` selects the map's id."""
    # With their types: PostgreSQL would take whole numbers for small ones.
    costs = (literal(getattr(cost, name), spending.c[name].type) for name in COST_COLUMNS)
    adding = insert_into(connection.dialect.name, spending)
    adding = adding.from_select(["map", "day", *COST_COLUMNS], map_id.add_columns(literal(day), *costs))
    connection.execute(
        adding.on_conflict_do_update(
            index_elements=[spending.c.map, spending.c.day],
            set_={name: spending.c[name] + adding.excluded[name] for name in COST_COLUMNS},
        )
    )


def own_map_id(connection: Connection, name: str) -> int:
    """Returns the map's id; an unknown map gets one. Locks the map until the transaction ends."""
    # SQLite has one writer anyway and leaves FOR UPDATE out.
    query = select(maps.c.id).where(maps.c.name == name).with_for_update()
    found: int | None = connection.execute(query).scalar()
    if found is not None:
        return found
    # Another process may insert it just now: this waits for it, and then inserts nothing.
    new = insert_into(connection.dialect.name, maps).values(name=name)
    connection.execute(new.on_conflict_do_nothing())
    return int(connection.execute(query).scalar_one())
