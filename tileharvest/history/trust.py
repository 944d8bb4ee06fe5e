"""Trust: which of what the walk remembers vouches for the tiles below it, and what a harvest has skipped.

A tile in `validators` is whole if everything below it was asked without a failure, or lies below another
whole tile that had not changed. Only `decide_trust`, at the end of a harvest, makes tiles whole. It also
makes sure that no remembered tile which is not whole lies below a whole one. A walk that trusts the upper
tile would never come to the lower one.

A harvest skips what lies below its tops. A top is a tile that was unchanged and trusted. Whether a tile lies
below a top is found out here in Python: the database would go through all tiles once for each top. A walk
that rests on a change index also skips everything outside of the ground of the index.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, bindparam, func, or_, select, update

from tileharvest.history.areas import IN_SLICES
from tileharvest.history.change_indexes import IS_TRUSTED, ground_of
from tileharvest.history.remembered import pack, unpack
from tileharvest.history.results import ITS_LAYERS, BlockResults, cells_of, found_by, found_in
from tileharvest.history.schema import (
    FINISHED,
    MASKS,
    blocks,
    harvests,
    insert_into,
    is_block,
    layers,
    proofs,
    validators,
)
from tileharvest.tiles.block import bit_of, bits_of
from tileharvest.tiles.grid import Tile, ancestors, covered_by
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from sqlalchemy import Connection

    from tileharvest.history.schema import Row
    from tileharvest.tiles.grid import Cell, TileRange

    Spared = Callable[[BlockResults, int], int]

_Place = tuple[int, int, int]
"""Zoom, column and row of a block."""

_FACTOR: Final = select(layers.c.factor).where(layers.c.id == bindparam("in_layer"))
_TOPS: Final = select(blocks.c.zoom, blocks.c.column, blocks.c.row, blocks.c.skips).where(
    blocks.c.layer == bindparam("in_layer"), blocks.c.harvest == bindparam("in_harvest"), blocks.c.skips != 0
)
IS_FULL: Final = and_(harvests.c.reason == FINISHED, func.coalesce(harvests.c.walk, "full") == "full")
"""Whether a harvest finished and walked in full. Harvests of old releases, which note no walk, did."""
_THE_HARVEST: Final = select(IS_FULL).where(harvests.c.id == bindparam("in_harvest"))
_REMEMBERED: Final = select(
    *(
        validators.c[name]
        for name in ("zoom", "column", "row", "seen", "there", "missing", "whole", "harvest")
    )
).where(validators.c.layer == bindparam("in_layer"))
_PACKED: Final = select(validators.c.packed).where(is_block(validators))
_UPDATE: Final = update(validators).where(is_block(validators))
_SET_WHOLE: Final = _UPDATE.values(whole=bindparam("now_whole"))
_FORGET: Final = _UPDATE.values(there=bindparam("now_there"), missing=0, packed=bindparam("now_packed"))
_NOTHING_FOUND: Final = {"harvest": None, **dict.fromkeys((*MASKS.values(), "skips"), 0)}


def decide_trust(connection: Connection, harvest: int, *, is_complete: bool) -> None:
    """Makes the tiles whole that a complete harvest has seen, without failed tiles and all above them.

    Call it at the end of a harvest, after its last result. A harvest that is not complete makes no tile
    whole. After one that walked in full, results of earlier harvests are forgotten: they are of zones or
    zooms that the map does not keep any more. Reads all validators of the map.
    """
    for layer in connection.execute(ITS_LAYERS, {"in_harvest": harvest}).scalars().all():
        _decide_layer(connection, harvest, layer, is_complete=is_complete)
        if is_complete and connection.execute(_THE_HARVEST, {"in_harvest": harvest}).scalar_one():
            in_layer = update(blocks).where(blocks.c.layer == layer)
            connection.execute(in_layer.where(blocks.c.reached != 0).values(reached=0))
            connection.execute(in_layer.where(blocks.c.harvest != harvest).values(_NOTHING_FOUND))


def _decide_layer(connection: Connection, harvest: int, layer: int, *, is_complete: bool) -> None:
    its = {"in_harvest": harvest, "in_layer": layer}
    rows = connection.execute(_REMEMBERED, its, execution_options=IN_SLICES).all()
    before = {(row.zoom, row.column, row.row): row.whole for row in rows}
    there = {(row.zoom, row.column, row.row): row.there for row in rows}
    missing = {(row.zoom, row.column, row.row): row.missing for row in rows}
    seen = {(row.zoom, row.column, row.row): row.seen for row in rows if row.harvest == harvest}
    is_trusted = connection.execute(select(IS_TRUSTED), its).scalar_one()
    whole = dict(before) if is_trusted else dict.fromkeys(before, 0)
    factor = factor_of(connection, layer)
    failed: list[Cell] = []
    unseen: list[Cell] = []
    for one in found_by(connection, harvest, layer):
        failed += one.cells(one.of(Outcome.FAILED))
        unseen += one.cells(one.changed & ~seen.get((one.zoom, one.column, one.row), 0))
    # Tiles that have changed without being remembered.
    _doubt(whole, unseen, factor)
    if is_complete:
        # What it has seen itself is trusted all the same.
        for place, mask in seen.items():
            whole[place] |= mask & there[place]
        below = _below_missing(there, missing, seen, factor)
        for place, mask in below.items():
            _forget(connection, _its(layer, place), there[place], mask)
            whole[place] &= ~mask
            there[place] &= ~mask
    doubtful = (cell for place, mask in there.items() for cell in cells_of(*place, mask & ~whole[place]))
    _doubt(whole, chain(failed, doubtful), factor)
    changed = [
        {**_its(layer, place), "now_whole": mask} for place, mask in whole.items() if mask != before[place]
    ]
    if changed:
        connection.execute(_SET_WHOLE, changed)


def _doubt(whole: dict[_Place, int], doubtful: Iterable[Cell], factor: int) -> None:
    """Takes trust from these tiles and from all above them."""
    if not any(whole.values()):
        return
    cells = set(doubtful)
    coarsest = min((zoom for zoom, _, _ in whole), default=0)
    for cell in cells.union(ancestors(cells, coarsest, factor)):
        tile = Tile(*cell)
        place = tile.zoom, tile.column >> 3, tile.row >> 3
        if place in whole:
            whole[place] &= ~(1 << bit_of(tile))


def _below_missing(
    there: Mapping[_Place, int], missing: Mapping[_Place, int], seen: Mapping[_Place, int], factor: int
) -> dict[_Place, int]:
    """Returns by block the remembered tiles below those that were remembered and are missing now, and the
    blocks with missing tiles.

    They are to be forgotten. Nobody asks for them at zooms that the map does not keep. If they came back as
    they were, their old validators would say that nothing below them has changed, while all tiles below are
    recorded as gone.
    """
    tops = [cell for place, mask in missing.items() for cell in cells_of(*place, mask)]
    if not tops:
        return {}
    is_covered = covered_by(tops, factor)
    found = {
        place: _mask(cell for cell in cells_of(*place, mask & ~seen.get(place, 0)) if is_covered(cell))
        for place, mask in there.items()
    }
    return {place: mask for place, mask in found.items() if mask or missing[place]}


def _forget(connection: Connection, its: Row, there: int, mask: int) -> None:
    """Forgets what is remembered of a block's tiles, and which of them are missing."""
    left = unpack(connection.execute(_PACKED, its).scalar_one())
    for bit in bits_of(mask):
        del left[bit]
    connection.execute(_FORGET, {**its, "now_there": there & ~mask, "now_packed": pack(left)})


def _its(layer: int, place: _Place) -> Row:
    zoom, column, row = place
    return {"its_layer": layer, "its_zoom": zoom, "its_column": column, "its_row": row}


def distrust(connection: Connection, harvest: int, day: date, layer: int, reason: str) -> list[Tile]:
    """Withdraws the layer's proof and all trust in it. Returns the tops that are still to be asked again.

    The harvest's walk is noted as `repaired`. The first reason is kept. The caller has changed the harvest's
    row in this transaction.
    """
    pruned = update(harvests).where(harvests.c.id == harvest, harvests.c.walk == "pruned")
    connection.execute(pruned.values(walk="repaired"))
    withdrawal = {"harvest": harvest, "withdrawn": reason, "withdrawn_day": day}
    unproved = {"layer": layer, "day": day, "pairs": 0, "broken": 0, "undated": 0, "span": 0.0}
    new = insert_into(proofs).values({**unproved, **withdrawal})
    is_news = or_(proofs.c.harvest != harvest, proofs.c.withdrawn.is_(None))
    connection.execute(
        new.on_conflict_do_update(index_elements=[proofs.c.layer], set_=withdrawal, where=is_news)
    )
    return sorted(Tile(*cell) for cell in _skipping(connection, harvest, layer))


def tops_of(connection: Connection, harvest: int, layer: int) -> list[Cell]:
    """Returns the tiles below which the harvest did not ask. There are none if it has withdrawn trust in the
    layer.

    Reads all blocks of the layer.
    """
    its = {"in_harvest": harvest, "in_layer": layer}
    is_trusted = connection.execute(select(IS_TRUSTED), its).scalar_one()
    return list(_skipping(connection, harvest, layer)) if is_trusted else []


def walked_in_full(connection: Connection, harvest: int, layer: int) -> bool:
    """Returns whether the harvest has skipped nothing in the layer, and has withdrawn no trust."""
    its = {"in_harvest": harvest, "in_layer": layer}
    is_trusted = connection.execute(select(IS_TRUSTED), its).scalar_one()
    return bool(is_trusted) and spared_by(connection, harvest, layer) is None


def _skipping(connection: Connection, harvest: int, layer: int) -> Iterator[Cell]:
    for row in connection.execute(_TOPS, {"in_harvest": harvest, "in_layer": layer}):
        yield from cells_of(*row)


def spared_by(connection: Connection, harvest: int, layer: int) -> Spared | None:
    """Returns a function that gives the tiles of a block's mask that the harvest skips, or None if it skips
    nothing.

    Skipped tiles lie below a top, or outside of the ground of a change index."""
    tops, ground = tops_of(connection, harvest, layer), ground_of(connection, harvest, layer)
    if not tops and ground is None:
        return None
    factor = factor_of(connection, layer)
    is_covered = covered_by(tops, factor)

    def spared(one: BlockResults, mask: int) -> int:
        if factor == 2 and is_covered(one.cover):
            return mask
        return _mask(
            cell
            for cell in one.cells(mask)
            if is_covered(cell) or (ground is not None and cell not in ground)
        )

    return spared


def unasked_in(
    connection: Connection, harvest: int, layer: int, areas: Sequence[TileRange]
) -> Iterator[tuple[BlockResults, int]]:
    """Yields the blocks with present tiles of these areas that the harvest has neither asked nor skipped,
    each with the mask of these tiles. Coarse zooms come first."""
    spared = spared_by(connection, harvest, layer)
    for one, mask in found_in(connection, harvest, layer, areas):
        left = one.unasked & mask
        if left := left & ~(spared(one, left) if spared else 0):
            yield one, left


def skipped_in(
    connection: Connection, harvest: int, layer: int, areas: Sequence[TileRange]
) -> Iterator[tuple[BlockResults, int]]:
    """Yields the blocks with present tiles of these areas that the harvest skips, each with the mask of these
    tiles. Those that were asked all the same are included."""
    spared = spared_by(connection, harvest, layer)
    if spared is not None:
        for one, mask in found_in(connection, harvest, layer, areas):
            if skipped := spared(one, one.present & mask):
                yield one, skipped


def count_skipped(connection: Connection, harvest: int) -> dict[int, int]:
    """Returns by layer how many present tiles were skipped and have no result. Layers with 0 are left out."""
    counted = {}
    for layer in connection.execute(ITS_LAYERS, {"in_harvest": harvest}).scalars().all():
        spared = spared_by(connection, harvest, layer)
        if spared is not None:
            query = select(blocks).where(blocks.c.layer == layer)
            rows = connection.execute(query, execution_options=IN_SLICES)
            of_harvest = (BlockResults(row, harvest) for row in rows)
            counted[layer] = sum(spared(one, one.unasked & one.reached).bit_count() for one in of_harvest)
    return {layer: count for layer, count in counted.items() if count}


def factor_of(connection: Connection, layer: int) -> int:
    """Returns how many tiles of the next deeper zoom lie along a tile's edge."""
    return int(connection.execute(_FACTOR, {"in_layer": layer}).scalar_one())


def _mask(cells: Iterable[Cell]) -> int:
    """Returns the mask of tiles of one block."""
    mask = 0
    for cell in cells:
        mask |= 1 << bit_of(Tile(*cell))
    return mask
