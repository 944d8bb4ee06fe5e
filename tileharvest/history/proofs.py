"""The proofs of layers and the day of the last full walk. They are written when a harvest ends, and read
before the next one begins."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Final

from sqlalchemy import BigInteger, and_, bindparam, func, or_, select, true, type_coerce

from tileharvest.history.areas import IN_SLICES, rows_in
from tileharvest.history.remembered import Validators, unpack
from tileharvest.history.results import ITS_LAYERS, BlockResults
from tileharvest.history.schema import (
    BLOCK,
    GIT_WALK,
    blocks,
    harvests,
    layers,
    maps,
    replace_into,
    tiles,
    validators,
    versions,
)
from tileharvest.history.schema import proofs as kept_proofs
from tileharvest.history.trust import IS_FULL, factor_of, walked_in_full
from tileharvest.tiles.block import SIDE, Block, bit_of, bits_of, mask_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.walk.proof import Proof, prove

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from sqlalchemy import ColumnElement, Connection

    from tileharvest.history.database import History
    from tileharvest.walk.proof import DatedTile

_DAY: Final = select(harvests.c.day, harvests.c.walk).where(harvests.c.id == bindparam("in_harvest"))
_FOUND_AND_REMEMBERED: Final = (
    select(
        blocks,
        validators.c.harvest.label("seen_by"),
        # Null if nothing is remembered, which no mask is.
        *(type_coerce(validators.c[name], BigInteger).label(name) for name in ("seen", "whole")),
        validators.c.packed,
    )
    .outerjoin(validators, and_(*(validators.c[name] == blocks.c[name] for name in BLOCK)))
    .where(blocks.c.layer == bindparam("in_layer"))
    .order_by(blocks.c.zoom)
)
_MODIFIED: Final = (
    select(tiles.c.x, tiles.c.y, versions.c.last_modified)
    .join_from(tiles, versions, versions.c.id == tiles.c.version)
    .where(versions.c.sha1.is_not(None))
)


def proofs(history: History, map_name: str | None = None) -> dict[str, dict[str, Proof]]:
    """Returns the last proof of each layer, by map and layer: of all maps, or of the named one.

    Layers come in the order in which they were first harvested. A map without proofs is left out.
    """
    query = (
        select(maps.c.name.label("map_name"), layers.c.name, kept_proofs)
        .join_from(kept_proofs, layers, layers.c.id == kept_proofs.c.layer)
        .join(maps, maps.c.id == layers.c.map)
        .where(_is_named(map_name))
        .order_by(layers.c.id)
    )
    found: dict[str, dict[str, Proof]] = {}
    with history.reading() as connection:
        for row in connection.execute(query):
            proof = Proof(*(getattr(row, part.name) for part in fields(Proof)))
            found.setdefault(row.map_name, {})[row.name] = proof
    return found


def last_full(history: History, map_name: str | None = None) -> dict[str, tuple[date, frozenset[str | None]]]:
    """Returns by map the day of its last finished harvest that walked in full: of all maps, or of the named
    one.

    With the day come the zones and zooms that this harvest and all later ones have kept, finished or not, in
    the form of `HarvestRecord.note_walk`. If the map keeps others now, the day is of no use: tiles that it
    did not keep were not asked, so an unchanged tile says nothing of what lies below it.

    A map without such a harvest is left out. One query, which reads an index of all harvests of these maps.
    """
    last = (
        select(harvests.c.map, func.max(harvests.c.id).label("id"))
        .join_from(harvests, maps, maps.c.id == harvests.c.map)
        .where(IS_FULL, _is_named(map_name))
        .group_by(harvests.c.map)
        .subquery()
    )
    # A harvest without a noted walk has asked nothing yet.
    has_asked = or_(harvests.c.id == last.c.id, harvests.c.walk.is_not(None))
    query = (
        select(maps.c.name, harvests.c.day, harvests.c.kept)
        .join_from(last, harvests, (harvests.c.map == last.c.map) & (harvests.c.id >= last.c.id))
        .join(maps, maps.c.id == last.c.map)
        .where(has_asked)
        .order_by(harvests.c.id)
    )
    found: dict[str, tuple[date, frozenset[str | None]]] = {}
    with history.reading() as connection:
        for name, day, kept in connection.execute(query):
            first_day, before = found.get(name, (day, frozenset()))
            found[name] = first_day, before | {kept}
    return found


def _is_named(map_name: str | None) -> ColumnElement[bool]:
    return true() if map_name is None else maps.c.name == map_name


def prove_layers(connection: Connection, harvest: int) -> None:
    """Writes a new proof for each layer in which this harvest has skipped nothing.

    Call it after `trust.decide_trust`. A harvest that has withdrawn a proof gives no new one, so that what it
    has found is not forgotten on the same day. Takes some milliseconds for a thousand tiles.
    """
    its = {"in_harvest": harvest}
    day, walk = connection.execute(_DAY, its).one()
    if walk == GIT_WALK:
        return
    for layer in connection.execute(ITS_LAYERS, its).scalars().all():
        if not walked_in_full(connection, harvest, layer):
            continue
        proof = prove(_times(connection, harvest, layer), day, factor_of(connection, layer))
        new = replace_into(kept_proofs, "layer")
        connection.execute(new, {"layer": layer, "harvest": harvest, **asdict(proof)})


def _times(connection: Connection, harvest: int, layer: int) -> Iterator[DatedTile]:
    """Yields the present tiles for which this harvest has an answer, each with its time; coarse zooms first.

    Mostly that is the time that the walk remembers. It is the time of the tile's version if the walk
    remembers nothing of the tile, or an earlier state. An earlier state is remembered if the tile was asked
    again after a kill, because `walk.walk.remember` leaves out late answers. Such a state was seen by
    another harvest and is not whole, and the tile has changed since.
    """
    for row in connection.execute(_FOUND_AND_REMEMBERED, {"in_layer": layer}, execution_options=IN_SLICES):
        one = BlockResults(row, harvest)
        seen = whole = 0
        remembered: Validators = {}
        if row.packed is not None:
            seen, whole = row.seen if row.seen_by == harvest else 0, row.whole
            remembered = unpack(row.packed)
        present = one.present & one.asked & ~one.of(Outcome.FAILED)
        fetched = one.changed | one.of(Outcome.NOT_MODIFIED)
        there = mask_of(remembered) & ~(fetched & ~whole & ~seen)
        # A remembered tile without a version is of a zoom that is not kept.
        dated = there & (present | whole & ~one.asked & ~one.present)
        left, top = one.column * SIDE, one.row * SIDE
        for bit in bits_of(dated):
            yield one.zoom, left + bit % SIDE, top + bit // SIDE, remembered[bit][1]
        if undated := present & ~there:
            area = Block("", one.zoom, one.column, one.row).area
            for x, y, modified in rows_in(connection, tiles, _MODIFIED, layer, area):
                tile = Tile(one.zoom, x, y)
                if undated >> bit_of(tile) & 1:
                    yield tile.zoom, tile.column, tile.row, modified
