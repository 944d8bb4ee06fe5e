"""Reads all rows of a history, with names instead of ids, and compares two histories."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Table, create_engine, select

from tileharvest.history.schema import TILE, metadata

_NAMED_BY: Final = {
    "maps": ("name",),
    "layers": ("map", "name"),
    "harvests": ("map", "segment"),
    "versions": (*TILE, "day"),
}
"""The columns that name a row, for each table whose rows have ids. A stage has one harvest per map and
segment."""

OF_A_RUN: Final = {
    "harvests": {"started", "ended", "requests", "received_bytes", "stored_bytes", "spared_bytes", "seconds"},
}
"""Columns that are not compared, by table. They say how a harvest went and not what it found, and differ
between two undisturbed harvests as well."""
_OF_A_RUN_AS_A_WHOLE: Final = {"spending"}

Rows = dict[tuple[Any, ...], dict[str, Any]]
"""The rows of a table, by the values of the columns that name a row."""


class Difference(NamedTuple):
    """A difference of two histories in one column, or rows that only one of them has."""

    place: str
    """Where they differ: `blocks.added`, `versions: missing` or `versions: too much`."""
    rows: int
    example: str

    def __str__(self) -> str:
        return f"{self.place}: {self.rows} rows, as {self.example}"


def whole_history(url: str) -> dict[str, Rows]:
    """Returns every row of every table. A foreign key is replaced by the columns that name the other row."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            found: dict[str, Rows] = {}
            names: dict[str, dict[int, tuple[Any, ...]]] = {}
            for table in metadata.sorted_tables:
                rows = [dict(row) for row in connection.execute(select(table)).mappings()]
                keys = _NAMED_BY.get(table.name, tuple(column.name for column in table.primary_key))
                for row in rows:
                    _name(table, row, names)
                if table.name in _NAMED_BY:
                    names[table.name] = {row.pop("id"): tuple(row[key] for key in keys) for row in rows}
                found[table.name] = {tuple(row[key] for key in keys): row for row in rows}
            return found
    finally:
        engine.dispose()


def differences(found: Mapping[str, Rows], expected: Mapping[str, Rows]) -> list[Difference]:
    """Returns the differences of two histories, without the tables and columns that say how harvests went."""
    different: dict[str, list[str]] = {}

    def note(place: str, what: object) -> None:
        different.setdefault(place, []).append(str(what))

    for table in sorted(expected.keys() - _OF_A_RUN_AS_A_WHOLE):
        ours, theirs = found[table], expected[table]
        for key in theirs.keys() - ours.keys():
            note(f"{table}: missing", theirs[key])
        for key in ours.keys() - theirs.keys():
            note(f"{table}: too much", ours[key])
        for key in ours.keys() & theirs.keys():
            for column in theirs[key].keys() - OF_A_RUN.get(table, set()):
                if ours[key][column] != theirs[key][column]:
                    note(
                        f"{table}.{column}",
                        f"{key}: {ours[key][column]!r} instead of {theirs[key][column]!r}",
                    )
    return [Difference(place, len(rows), min(rows)) for place, rows in sorted(different.items())]


def _name(table: Table, row: dict[str, Any], names: Mapping[str, Mapping[int, tuple[Any, ...]]]) -> None:
    for column in table.c:
        for key in column.foreign_keys:
            of = key.column.table.name
            if of in names and row[column.name] is not None:
                row[column.name] = names[of][row[column.name]]
