"""Copies what a dry run must know of one map into another history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import insert, select

from tileharvest.history.schema import (
    harvest_counts,
    harvest_layers,
    harvests,
    layers,
    maps,
    proofs,
    tiles,
    validators,
    versions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Select, Table

    from tileharvest.history.database import History

_ROWS: Final = 5_000
"""Rows held in memory at a time: a few megabytes."""


def copy_map(source: History, target: History, map_name: str) -> None:
    """Copies the map's harvests, tiles and latest versions into an empty history, ids included."""
    with source.reading() as reader, target.writing() as writer:
        for table, query in _queries(map_name):
            rows = reader.execution_options(yield_per=_ROWS).execute(query).mappings()
            for part in rows.partitions():
                writer.execute(insert(table), [dict(row) for row in part])


def _queries(map_name: str) -> Iterator[tuple[Table, Select[Any]]]:
    """Each table with the rows to copy, those that others refer to first."""
    map_id = select(maps.c.id).where(maps.c.name == map_name).scalar_subquery()
    its_harvests = select(harvests.c.id).where(harvests.c.map == map_id)
    its_layers = select(layers.c.id).where(layers.c.map == map_id)
    its_latest = select(tiles.c.version).where(tiles.c.layer.in_(its_layers))
    yield maps, select(maps).where(maps.c.name == map_name)
    yield layers, select(layers).where(layers.c.map == map_id)
    yield harvests, select(harvests).where(harvests.c.map == map_id)
    yield harvest_layers, select(harvest_layers).where(harvest_layers.c.harvest.in_(its_harvests))
    yield harvest_counts, select(harvest_counts).where(harvest_counts.c.harvest.in_(its_harvests))
    yield versions, select(versions).where(versions.c.id.in_(its_latest))
    for table in (tiles, validators, proofs):
        yield table, select(table).where(table.c.layer.in_(its_layers))
