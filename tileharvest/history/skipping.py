"""What a harvest did not ask, as nothing above it had changed.

It skips below its tops: tiles that were unchanged and trusted. Below which of them a tile lies is looked up
here and not in the database, which would go through all tiles once for each top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, exists, func, select

from tileharvest.history.areas import is_unasked, present_rows
from tileharvest.history.schema import FINISHED, harvest_layers, harvests, proofs, tiles, validators, versions
from tileharvest.tiles.grid import Squares, Tile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select

    from tileharvest.tiles.grid import Cell, TileRange


def layers_of(harvest: int) -> Select[int]:
    """The ids of the layers that a harvest has."""
    return select(harvest_layers.c.layer).where(harvest_layers.c.harvest == harvest)


def is_distrusted(harvest: int) -> ColumnElement[bool]:
    """Of validators: whether this harvest has found that their layer is not to be trusted."""
    return exists().where(
        proofs.c.layer == validators.c.layer,
        proofs.c.harvest == harvest,
        proofs.c.withdrawn.is_not(None),
    )


def tops_of(connection: Connection, harvest: int, layer: int) -> list[Cell]:
    """None where trust in the layer was withdrawn. Reads all validators of the layer."""
    query = (
        select(validators.c.zoom, validators.c.x, validators.c.y)
        .where(validators.c.layer == layer, validators.c.skipped == harvest)
        .where(~is_distrusted(harvest))
    )
    return [(zoom, x, y) for zoom, x, y in connection.execute(query)]


def squares_of(connection: Connection, harvest: int, layer: int) -> Squares:
    """What the harvest skips of the layer."""
    return Squares(tops_of(connection, harvest, layer))


def skipped_tiles(connection: Connection, harvest: int, layer: int, areas: Sequence[TileRange]) -> list[Tile]:
    """Present ones of these areas that lie below a top, in order; also those that were asked all the same."""
    skipped = squares_of(connection, harvest, layer)
    if not skipped:
        return []
    rows = present_rows(connection, layer, areas)
    return sorted(Tile(*place) for place in rows if skipped.cover(place))


def is_full() -> ColumnElement[bool]:
    """Of harvests: whether it has finished and walked in full, as those did that do not say how."""
    return and_(harvests.c.reason == FINISHED, func.coalesce(harvests.c.walk, "full") == "full")


def _last_full(harvest: int, layer: int) -> ScalarSelect[int]:
    """The id of the last full harvest before this one that had the layer; null if there is none."""
    return (
        select(func.max(harvests.c.id))
        .join_from(harvests, harvest_layers, harvest_layers.c.harvest == harvests.c.id)
        .where(harvest_layers.c.layer == layer, harvests.c.id < harvest, is_full())
        .scalar_subquery()
    )


def count_skipped(connection: Connection, harvest: int) -> dict[int, int]:
    """By layer: present tiles below a top that the harvest has no result for; none where that is 0."""
    its_layers = connection.execute(layers_of(harvest)).scalars().all()
    counted = {layer: _count_below(connection, harvest, layer) for layer in its_layers}
    return {layer: count for layer, count in counted.items() if count}


def _count_below(connection: Connection, harvest: int, layer: int) -> int:
    tops = tops_of(connection, harvest, layer)
    if not tops:
        return 0
    query = (
        select(tiles.c.zoom, tiles.c.x, tiles.c.y)
        .join_from(tiles, versions, versions.c.id == tiles.c.version)
        .where(tiles.c.layer == layer, tiles.c.zoom > min(tops)[0])
        .where(versions.c.sha1.is_not(None), is_unasked(harvest))
        # The last full harvest has asked for all that the map keeps; what it keeps no more has older results.
        .where(tiles.c.harvest >= func.coalesce(_last_full(harvest, layer), 0))
    )
    skipped = Squares(tops)
    return sum(skipped.cover((zoom, x, y)) for zoom, x, y in connection.execute(query))
