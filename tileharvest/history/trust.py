"""Trust: what the walk remembers of tiles, which of that vouches for the tiles below, what a harvest has
skipped, and the proofs of layers.

A tile in `validators` is whole if everything below it was asked without a failure, or lies below another
whole tile that had not changed. Only `decide_trust`, at the end of a harvest, makes tiles whole. It also
makes sure that no remembered tile which is not whole lies below a whole one. A walk that trusts the upper
tile would never come to the lower one.

A harvest skips what lies below its tops. A top is a tile that was unchanged and trusted. Whether a tile lies
below a top is found out here in Python: the database would go through all tiles once for each top. A walk
that rests on a change index also skips everything outside of the ground of the index.
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import asdict, fields
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from sqlalchemy import and_, bindparam, func, or_, select, update

from tileharvest.history.areas import IN_SLICES, rows_in
from tileharvest.history.change_indexes import IS_TRUSTED, ground_of
from tileharvest.history.results import BlockResults, cells_of, found_by, found_in, layers_of
from tileharvest.history.schema import (
    BLOCK,
    FINISHED,
    GIT_WALK,
    MASKS,
    blocks,
    harvests,
    insert_into,
    is_block,
    is_of_map,
    its_block,
    layers,
    replace_into,
    tiles,
    validators,
    versions,
)
from tileharvest.history.schema import proofs as kept_proofs
from tileharvest.tiles.block import SIDE, Block, bit_of, bits_of, mask_of
from tileharvest.tiles.grid import Tile, TileRange, ancestors, covered_by
from tileharvest.tiles.outcomes import CHANGED, Outcome, tiles_with
from tileharvest.tiles.versions import Validator
from tileharvest.walk.proof import Proof, prove

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from sqlalchemy import Connection

    from tileharvest.history.blocks import FoundBlock
    from tileharvest.history.database import History
    from tileharvest.history.schema import Row
    from tileharvest.tiles.grid import Cell
    from tileharvest.walk.proof import DatedBlock

    Spared = Callable[[BlockResults, int], int]

Validators: TypeAlias = dict[int, tuple[str | None, str | None]]
"""By the bits of their tiles: ETag and Last-Modified, as the server wrote them."""

_QUICKLY: Final = 1
"""zlib's level. A block's validators are 3 KB, of which a third is left."""
_READER: Final = msgspec.msgpack.Decoder(Validators)
_ABSENT: Final = Validator()

_ROW: Final = select(validators).where(is_block(validators))
_WRITE: Final = replace_into(validators, *BLOCK)
_UPDATE: Final = update(validators).where(is_block(validators))
_SET_WHOLE: Final = _UPDATE.values(whole=bindparam("now_whole"))


def pack(found: Validators) -> bytes:
    """Returns validators as `validators.packed` has them."""
    return zlib.compress(msgspec.msgpack.encode(dict(sorted(found.items()))), _QUICKLY)


def unpack(packed: bytes) -> Validators:
    """Returns what was packed. Raises ValueError for anything else."""
    try:
        return _READER.decode(zlib.decompress(packed))
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"the validators of a block cannot be read: {error}") from error


def remember(connection: Connection, harvest: int, its: Row, found: FoundBlock) -> tuple[int, int]:
    """Writes what the walk is to remember of a block.

    Returns the tiles that are remembered, if the block skips anything, and those of which something else is
    found than that nothing below them is to be asked.
    """
    changed = tiles_with(CHANGED, found.outcomes)
    failed = found.outcomes.get(Outcome.FAILED, 0)
    seen = {
        bit: (one.etag, one.last_modified)
        for bit, one in found.seen.items()
        if one != _ABSENT and not failed >> bit & 1
    }
    there = mask_of(seen)
    missing = (mask_of(found.seen) & ~there | found.outcomes.get(Outcome.GONE, 0)) & ~failed
    # Tiles that have changed, by an answer that is not remembered. If the site put the old file back, the old
    # validators of the tile and of the tiles above it would say that nothing has changed.
    unseen = (found.doubts | changed & ~(there | missing)) & ~failed
    told = there | missing | unseen | failed
    if not told | found.skips:
        return 0, 0
    row = connection.execute(_ROW, its).mappings().first()
    if row is None and not there:
        return 0, told
    old = {"there": 0, "missing": 0, "whole": 0, "seen": 0} if row is None else row
    # Most places of a map are empty. They are remembered only if there was something.
    missing &= old["there"]
    whole = old["whole"] & ~told
    if there | missing:
        kept = {} if row is None else unpack(row["packed"])
        for bit in bits_of(missing):
            del kept[bit]
        is_same = row is not None and row["harvest"] == harvest
        values = {
            **{name: its[f"its_{name}"] for name in BLOCK},
            "harvest": harvest,
            "seen": (old["seen"] if is_same else 0) | there | missing,
            "there": old["there"] & ~missing | there,
            "missing": old["missing"] & ~there | missing,
            "whole": whole,
            "packed": pack(kept | seen),
        }
        connection.execute(_WRITE, values)
        return values["there"], told
    if whole != old["whole"]:
        connection.execute(_SET_WHOLE, {**its, "now_whole": whole})
    return old["there"], told


_Place = tuple[int, int, int]
"""Zoom, column and row of a block."""
_Tops = tuple[int, int, int, int]
"""Zoom, column and row of a block, and the mask of its tops."""

_FORGET: Final = _UPDATE.values(there=bindparam("now_there"), missing=0, packed=bindparam("now_packed"))
_NOTHING_FOUND: Final = {"harvest": None, **dict.fromkeys((*MASKS.values(), "skips"), 0)}


def decide_trust(connection: Connection, harvest: int, *, is_complete: bool, is_full: bool) -> None:
    """Makes the tiles whole that a complete harvest has seen, without failed tiles and all above them.

    Call it at the end of a harvest, after its last result. A harvest that is not complete makes no tile
    whole. After one that walked in full (`is_full`), results of earlier harvests are forgotten: they are of
    zones or zooms that the map does not keep any more. Reads all validators of the map.
    """
    for layer in layers_of(connection, harvest):
        _decide_layer(connection, harvest, layer, is_complete=is_complete)
        if is_full:
            in_layer = update(blocks).where(blocks.c.layer == layer)
            connection.execute(in_layer.where(blocks.c.reached != 0).values(reached=0))
            connection.execute(in_layer.where(blocks.c.harvest != harvest).values(_NOTHING_FOUND))


def _decide_layer(connection: Connection, harvest: int, layer: int, *, is_complete: bool) -> None:
    # Without what is packed, of which there may be many megabytes.
    columns = [column for column in validators.c if column.name != "packed"]
    rows = connection.execute(select(*columns).where(validators.c.layer == layer)).all()
    before = {(row.zoom, row.column, row.row): row.whole for row in rows}
    there = {(row.zoom, row.column, row.row): row.there for row in rows}
    missing = {(row.zoom, row.column, row.row): row.missing for row in rows}
    seen = {(row.zoom, row.column, row.row): row.seen for row in rows if row.harvest == harvest}
    whole = dict(before) if _is_trusted(connection, harvest, layer) else dict.fromkeys(before, 0)
    factor = factor_of(connection, layer)
    failed: list[Cell] = []
    unseen: list[Cell] = []
    for one in found_by(connection, harvest, layer, {*CHANGED, Outcome.FAILED}):
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
            _forget(connection, its_block(layer, Block("", *place)), there[place], mask)
            whole[place] &= ~mask
            there[place] &= ~mask
    doubtful = (cell for place, mask in there.items() for cell in cells_of(*place, mask & ~whole[place]))
    _doubt(whole, chain(failed, doubtful), factor)
    changed = [
        {**its_block(layer, Block("", *place)), "now_whole": mask}
        for place, mask in whole.items()
        if mask != before[place]
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
    left = unpack(connection.execute(_ROW, its).one().packed)
    for bit in bits_of(mask):
        del left[bit]
    connection.execute(_FORGET, {**its, "now_there": there & ~mask, "now_packed": pack(left)})


def distrust(connection: Connection, harvest: int, day: date, layer: int, reason: str) -> list[_Tops]:
    """Withdraws the layer's proof and all trust in it. Returns the tops that are still to be asked again.

    The harvest's walk is noted as `repaired`. The first reason is kept. The caller has changed the harvest's
    row in this transaction.
    """
    pruned = update(harvests).where(harvests.c.id == harvest, harvests.c.walk == "pruned")
    connection.execute(pruned.values(walk="repaired"))
    withdrawal = {"harvest": harvest, "withdrawn": reason, "withdrawn_day": day}
    unproved = {"layer": layer, "day": day, "pairs": 0, "broken": 0, "undated": 0, "span": 0.0}
    new = insert_into(kept_proofs).values({**unproved, **withdrawal})
    is_news = or_(kept_proofs.c.harvest != harvest, kept_proofs.c.withdrawn.is_(None))
    connection.execute(
        new.on_conflict_do_update(index_elements=[kept_proofs.c.layer], set_=withdrawal, where=is_news)
    )
    return _skipping(connection, harvest, layer)


def tops_of(connection: Connection, harvest: int, layer: int) -> list[_Tops]:
    """Returns the tiles below which the harvest did not ask. There are none if it has withdrawn trust in the
    layer.

    Reads all blocks of the layer.
    """
    return _skipping(connection, harvest, layer) if _is_trusted(connection, harvest, layer) else []


def _is_trusted(connection: Connection, harvest: int, layer: int) -> bool:
    """Returns whether the harvest has not withdrawn trust in the layer."""
    its = {"in_harvest": harvest, "in_layer": layer}
    return bool(connection.execute(select(IS_TRUSTED), its).scalar_one())


def _skipping(connection: Connection, harvest: int, layer: int) -> list[_Tops]:
    its = (blocks.c.layer == layer, blocks.c.harvest == harvest, blocks.c.skips != 0)
    query = select(blocks.c.zoom, blocks.c.column, blocks.c.row, blocks.c.skips).where(*its)
    return [(row.zoom, row.column, row.row, row.skips) for row in connection.execute(query)]


def spared_by(connection: Connection, harvest: int, layer: int) -> Spared | None:
    """Returns a function that gives the tiles of a block's mask that the harvest skips, or None if it skips
    nothing.

    Skipped tiles lie below a top, or outside of the ground of a change index."""
    tops, ground = tops_of(connection, harvest, layer), ground_of(connection, harvest, layer)
    if not tops and ground is None:
        return None
    factor = factor_of(connection, layer)
    is_covered = covered_by((cell for one in tops for cell in cells_of(*one)), factor)

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


def count_outcomes(connection: Connection, harvest: int) -> dict[tuple[int, Outcome], int]:
    """Returns the number of tiles by layer and outcome, for outcomes that occurred. Skipped are the present
    tiles that the harvest skips and that have no result. Reads all blocks of the map."""
    counted: Counter[tuple[int, Outcome]] = Counter()
    for layer in layers_of(connection, harvest):
        masks = select(*(blocks.c[name] for name in MASKS.values()))
        its = masks.where(blocks.c.layer == layer, blocks.c.harvest == harvest)
        for row in connection.execute(its, execution_options=IN_SLICES):
            for outcome, mask in zip(MASKS, row, strict=True):
                counted[layer, outcome] += mask.bit_count()
        if (spared := spared_by(connection, harvest, layer)) is None:
            continue
        present = select(blocks).where(blocks.c.layer == layer, blocks.c.present != 0)
        for row in connection.execute(present, execution_options=IN_SLICES):
            one = BlockResults(row, harvest)
            skipped = spared(one, one.unasked & one.reached)
            counted[layer, Outcome.SKIPPED] += skipped.bit_count()
    return {place: number for place, number in counted.items() if number}


def factor_of(connection: Connection, layer: int) -> int:
    """Returns how many tiles of the next deeper zoom lie along a tile's edge."""
    return int(connection.execute(select(layers.c.factor).where(layers.c.id == layer)).scalar_one())


def _mask(cells: Iterable[Cell]) -> int:
    """Returns the mask of tiles of one block."""
    return mask_of(bit_of(Tile(*cell)) for cell in cells)


def proofs(history: History, map_name: str) -> dict[str, Proof]:
    """Returns the last proof of each layer of a map, in the order in which the layers were first harvested.
    Layers without a proof are left out."""
    query = (
        select(layers.c.name, kept_proofs)
        .join_from(kept_proofs, layers, layers.c.id == kept_proofs.c.layer)
        .where(is_of_map(layers, map_name))
        .order_by(layers.c.id)
    )
    with history.reading() as connection:
        rows = connection.execute(query).all()
    return {row.name: Proof(*(getattr(row, part.name) for part in fields(Proof))) for row in rows}


def last_full(history: History, map_name: str, kept: str) -> date | None:
    """Returns the day of the map's last finished harvest that walked in full, or None if there is none.

    Returns None also if this harvest or any later one, finished or not, has kept other zones and zooms than
    `kept`, which has the form of `HarvestRecord.note_walk`: tiles that it did not keep were not asked, so an
    unchanged tile says nothing of what lies below it. Reads an index of the map's harvests.
    """
    its, is_full = is_of_map(harvests, map_name), func.coalesce(harvests.c.walk, "full") == "full"
    last = (
        select(func.max(harvests.c.id)).where(its, is_full, harvests.c.reason == FINISHED).scalar_subquery()
    )
    # A harvest without a noted walk has asked nothing yet.
    has_asked = or_(harvests.c.id == last, harvests.c.walk.is_not(None))
    query = select(harvests.c.day, harvests.c.kept).where(its, harvests.c.id >= last, has_asked)
    with history.reading() as connection:
        rows = connection.execute(query.order_by(harvests.c.id)).all()
    return rows[0].day if rows and all(row.kept == kept for row in rows) else None


def prove_layers(connection: Connection, harvest: int, day: date, walk: str | None) -> None:
    """Writes a new proof for each layer in which this harvest of that day and walk has skipped nothing.

    Call it after `decide_trust`. A harvest that has withdrawn a proof gives no new one, so that what it has
    found is not forgotten on the same day. Takes some milliseconds for a thousand tiles.
    """
    if walk == GIT_WALK:
        return
    for layer in layers_of(connection, harvest):
        is_trusted = _is_trusted(connection, harvest, layer)
        if not is_trusted or spared_by(connection, harvest, layer) is not None:
            continue
        proof = prove(_times(connection, harvest, layer), day, factor_of(connection, layer))
        new = replace_into(kept_proofs, "layer")
        connection.execute(new, {"layer": layer, "harvest": harvest, **asdict(proof)})


def _times(connection: Connection, harvest: int, layer: int) -> Iterator[DatedBlock]:
    """Yields the present tiles for which this harvest has an answer, with their times, block by block; coarse
    zooms first.

    Mostly that is the time that the walk remembers. It is the time of the tile's version if the walk
    remembers nothing of the tile, or an earlier state. An earlier state is remembered if the tile was asked
    again after a kill, because `Walk.steps` leaves out late answers. Such a state was seen by
    another harvest and is not whole, and the tile has changed since.
    """
    found_and_remembered = (
        select(
            blocks,
            validators.c.harvest.label("seen_by"),
            *(func.coalesce(validators.c[name], 0).label(name) for name in ("seen", "whole")),
            validators.c.packed,
        )
        .outerjoin(validators, and_(*(validators.c[name] == blocks.c[name] for name in BLOCK)))
        .where(blocks.c.layer == layer)
        .order_by(blocks.c.zoom)
    )
    modified = (
        select(tiles.c.x, tiles.c.y, versions.c.last_modified)
        .join_from(tiles, versions, versions.c.id == tiles.c.version)
        .where(versions.c.sha1.is_not(None))
    )
    for row in connection.execute(found_and_remembered, execution_options=IN_SLICES):
        one = BlockResults(row, harvest)
        seen, whole = row.seen if row.seen_by == harvest else 0, row.whole
        remembered = {} if row.packed is None else unpack(row.packed)
        present = one.present & one.asked & ~one.of(Outcome.FAILED)
        fetched = one.changed | one.of(Outcome.NOT_MODIFIED)
        there = mask_of(remembered) & ~(fetched & ~whole & ~seen)
        # A remembered tile without a version is of a zoom that is not kept.
        dated = there & (present | whole & ~one.asked & ~one.present)
        times = {bit: said[1] for bit, said in remembered.items() if dated >> bit & 1}
        if undated := present & ~there:
            block = Block("", one.zoom, one.column, one.row, undated)
            area = TileRange.covering(tile for _, tile in block.tiles())
            for x, y, date_of in rows_in(connection, tiles, modified, layer, area):
                bit = bit_of(Tile(one.zoom, x, y))
                if undated >> bit & 1:
                    times[bit] = date_of
        yield one.zoom, one.column * SIDE, one.row * SIDE, times
