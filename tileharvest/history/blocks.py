"""The history of blocks: what it knows of a block before a harvest judges it, and what a harvest found there.

A block is 8 x 8 neighbouring tiles of one zoom. All masks have 64 bits, which `tiles.block` numbers, and all
dictionaries here are by the number of a tile's bit, 0 to 63. An unchanged block costs one read and one small
write.

Recording is idempotent. Masks are joined with those that the harvest has recorded for the block before, so
the same block twice, or the rest of a block that was cut short, counts each tile once. If a tile has two
outcomes in one harvest, the stronger one stays: `fail` is the weakest, then `404`, `ign`, `nMod`, `rep`, and
`upd` and `add`. `gone` is provisional until the harvest ends, and gives way to any outcome of a tile that is
there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import (
    Date,
    Integer,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    select,
    update,
)

from tileharvest.history.change_indexes import IS_TRUSTED
from tileharvest.history.schema import (
    BLOCK,
    BLOCK_LEVELS,
    MASKS,
    TILE,
    VERSION,
    blocks,
    changes,
    failures,
    insert_into,
    is_block,
    is_same_tile,
    is_tile,
    its_block,
    its_tile,
    replace_into,
    tiles,
    validators,
    version_of,
    version_row,
    versions,
    write_versions,
)
from tileharvest.history.trust import remember, unpack
from tileharvest.tiles.block import SIDE, Block, bit_of, bits_of, mask_of, place_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import THERE, Outcome, tiles_with
from tileharvest.tiles.versions import Image, Validator, Version
from tileharvest.walk.walk import Mark

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import date

    from sqlalchemy import ColumnElement, Connection, Table

    from tileharvest.history.schema import Row
    from tileharvest.tiles.results import TileResult


class KnownBlock(msgspec.Struct, frozen=True):
    """What the history knows of a block's tiles."""

    versions: Mapping[int, Version] = {}
    """The latest version of each tile that has one. It may be `gone`."""
    remembered: Mapping[int, Mark] = {}
    """What the walk remembers of the last answers."""
    trusted: int = 0
    """The remembered tiles that the harvest which saw the answer has asked everything below, without a
    failure. No mark of this harvest is trusted before its end."""
    outcomes: Mapping[Outcome, int] = {}
    """What this harvest has found already, by whatever process: a mask for each outcome that occurred."""
    skips: int = 0
    """The tiles below which this harvest asks nothing."""
    present: int = 0
    """The tiles whose latest version has an image."""

    @property
    def asked(self) -> int:
        """The tiles for which this harvest has a result, failures included."""
        return _all_of(self.outcomes.values())

    @property
    def there(self) -> int:
        """The tiles that this harvest has found there."""
        return tiles_with(THERE, self.outcomes)


class FoundBlock(msgspec.Struct):
    """What a harvest found in a block, with all that recording it needs."""

    outcomes: dict[Outcome, int] = {}
    """A mask for each outcome. No tile is in two of them; tiles that were not asked are in none."""
    images: dict[int, Image] = {}
    """The images of new versions, for exactly the tiles that are `add`, `upd` or `rep`."""
    validators: dict[int, Validator] = {}
    """The validators of the GET answers of tiles with an image, and of those that are `nMod`."""
    reasons: dict[int, str] = {}
    """For exactly the failed tiles the reason, in a line for a person."""
    seen: dict[int, Validator] = {}
    """What the walk is to remember. An empty validator stands for a tile that is not there."""
    skips: int = 0
    """The unchanged tiles below which nothing is asked."""
    doubts: int = 0
    """The tiles whose remembered validator is of another state, and whose new one came too late."""
    is_kept: bool = True
    """Whether the map keeps the zoom. If not, only failures and what the walk remembers are recorded."""


_STRENGTH: Final = {
    Outcome.FAILED: 1,
    Outcome.NOTHING: 2,
    Outcome.IGNORED: 3,
    Outcome.NOT_MODIFIED: 4,
    Outcome.REPLACED: 5,
    Outcome.UPDATED: 6,
    Outcome.ADDED: 6,
    Outcome.GONE: 6,
}
"""A result replaces one of the same harvest when its strength is at least the resistance of that one."""

_RESISTANCE: Final = {**_STRENGTH, Outcome.GONE: _STRENGTH[Outcome.IGNORED]}
"""`gone` is provisional until the harvest ends: any result that proves that the tile exists replaces it."""

_ROW: Final = select(blocks).where(is_block(blocks))
_WRITE: Final = replace_into(blocks, *BLOCK)


def _in_columns(table: Table) -> ColumnElement[bool]:
    """Returns the SQL that says whether a row is of a column of the block that `_places` names."""
    return and_(
        table.c.layer == bindparam("its_layer"),
        table.c.zoom == bindparam("its_zoom"),
        # The database goes to the rows of each column directly. For a range it would read those above and
        # below the block, too.
        table.c.x.in_([bindparam(f"x_{number}") for number in range(SIDE)]),
    )


_OF_TILES: Final = _in_columns(tiles) & tiles.c.y.between(bindparam("y_from"), bindparam("y_to"))
# Each tile by itself, as it may have versions of many days.
_OF_VERSIONS: Final = _in_columns(versions) & versions.c.y.in_(
    [bindparam(f"y_{number}") for number in range(SIDE)]
)
_PRESENT_TILES: Final = (
    select(tiles.c.x, tiles.c.y)
    .join_from(tiles, versions, versions.c.id == tiles.c.version)
    .where(_OF_TILES, versions.c.sha1.is_not(None))
)
_LOOK_UP: Final = (
    select(
        blocks.c.harvest,
        *(blocks.c[name] for name in (*MASKS.values(), "skips", "present")),
        func.coalesce(validators.c.whole, 0).label("whole"),
        validators.c.packed,
        IS_TRUSTED.label("is_trusted"),
    )
    .outerjoin(validators, and_(*(validators.c[name] == blocks.c[name] for name in BLOCK)))
    .where(is_block(blocks))
)
_LATEST: Final = (
    # A damaged row may point at the version of another tile, or at none. Only the id is joined: by the tile,
    # too, PostgreSQL looks each time through all versions of the zoom, as long as it knows nothing of the
    # table, and takes 3 s for 1,024 tiles of 4,096.
    select(is_same_tile(versions, tiles), tiles.c.x, tiles.c.y, *VERSION)
    .join_from(tiles, versions, versions.c.id == tiles.c.version, isouter=True)
    .where(_OF_TILES)
)
PRESENT: Final = update(blocks).where(is_block(blocks)).values(present=bindparam("now_present"))
_NEW_FAILURE: Final = insert_into(failures).values(
    {name: bindparam(f"its_{name}") for name in TILE}
    | {"harvest": bindparam("in_harvest"), "reason": bindparam("why"), "in_a_row": 1}
)
_FAIL: Final = _NEW_FAILURE.on_conflict_do_update(
    index_elements=list(TILE),
    set_={
        "harvest": _NEW_FAILURE.excluded.harvest,
        "reason": _NEW_FAILURE.excluded.reason,
        # Only the first failure in a harvest is counted.
        "in_a_row": failures.c.in_a_row
        + case((failures.c.harvest == _NEW_FAILURE.excluded.harvest, 0), else_=1),
    },
)
_RECOVER: Final = delete(failures).where(is_tile(failures))
_RENEW: Final = (
    update(versions)
    .where(
        versions.c.id == select(tiles.c.version).where(is_tile(tiles)).scalar_subquery(),
        versions.c.sha1.is_not(None),
    )
    .values(etag=bindparam("its_etag"), last_modified=bindparam("its_last_modified"))
)


_OF_DAY: Final = _OF_VERSIONS & (versions.c.day == bindparam("its_day", type_=Date))
_LATER: Final = versions.alias()
_POINTING: Final = insert_into(tiles).from_select(
    [*TILE, "version"],
    select(*(versions.c[name] for name in (*TILE, "id"))).where(
        _OF_DAY, ~exists().where(is_same_tile(_LATER, versions), _LATER.c.day > versions.c.day)
    ),
)
_POINT_AT_VERSIONS: Final = _POINTING.on_conflict_do_update(
    index_elements=[tiles.c[name] for name in TILE], set_={"version": _POINTING.excluded.version}
)
_FORGET_COUNT: Final = delete(changes).where(
    *(changes.c[name] == bindparam(f"cover_{name}") for name in TILE), changes.c.day == bindparam("its_day")
)
_COUNT: Final = insert_into(changes).from_select(
    list(changes.c.keys()),
    select(*(bindparam(f"cover_{name}", type_=Integer) for name in TILE), versions.c.day, func.count())
    .where(_OF_DAY)
    .group_by(versions.c.day),
)


def look_up(connection: Connection, harvest: int, layer: int, block: Block) -> KnownBlock:
    """Returns what is known of the block's 64 places, whatever its mask.

    `harvest` and `layer` are ids. Takes two queries. What this harvest has seen itself is not trusted before
    its end, and nothing is if it has withdrawn trust in the layer. Raises ValueError if the rows are damaged.
    """
    its = {**_places(layer, block), "in_layer": layer, "in_harvest": harvest}
    row = connection.execute(_LOOK_UP, its).first()
    if row is None:
        return KnownBlock()
    latest, shift = {}, 1 - block.zoom
    for is_its, x, y, *version in connection.execute(_LATEST, its):
        if not is_its:
            raise ValueError(f"tile {block.zoom}_{x}_{y} without the version that it names")
        # The same as `bit_of`, without a tile.
        bit = (~(y >> shift) & 7) << 3 | (x >> shift) & 7
        latest[bit] = version_of(*version)
    found, skips = dict[Outcome, int](), 0
    if row.harvest == harvest:
        found = {one: mask for one, name in MASKS.items() if (mask := getattr(row, name))}
        skips = row.skips
    return KnownBlock(
        latest,
        {} if row.packed is None else unpack(row.packed),
        row.whole if row.is_trusted else 0,
        found,
        skips,
        row.present,
    )


def record(
    connection: Connection, harvest: int, day: date, layer: int, block: Block, found: FoundBlock
) -> None:
    """Records what a harvest found in a block. `harvest` and `layer` are ids.

    The caller has changed the harvest's row in this transaction, so no other program records for the map at
    the same time.
    """
    its = its_block(layer, block)
    row = connection.execute(_ROW, its).mappings().first()
    remembered, told = remember(connection, harvest, its, found)
    counted: Mapping[Outcome, int] = found.outcomes
    if not found.is_kept:
        counted = {Outcome.FAILED: counted.get(Outcome.FAILED, 0)}
    new = _begun(row, harvest)
    won = _join(new, counted)
    new["skips"] = new["skips"] & ~told | found.skips & remembered
    new["present"] |= mask_of(found.images)
    failed = won.pop(Outcome.FAILED, 0)
    recovered = new["failing"] & _all_of(won.values())
    new["failing"] = new["failing"] & ~recovered | failed
    connection.execute(_WRITE, {**new, **{name: its[f"its_{name}"] for name in BLOCK}})

    def row_of(bit: int) -> Row:
        tile = block.tile(bit)
        return its_tile(layer, tile.zoom, tile.x, tile.y)

    if failed:
        reasons = [
            {**row_of(bit), "in_harvest": harvest, "why": found.reasons[bit]} for bit in bits_of(failed)
        ]
        connection.execute(_FAIL, reasons)
    if recovered:
        connection.execute(_RECOVER, [row_of(bit) for bit in bits_of(recovered)])
    if found.images:
        its_versions = {
            bit: Version(day, image, found.validators.get(bit, Validator()))
            for bit, image in found.images.items()
        }
        record_versions(connection, harvest, day, layer, block, its_versions)
    renewed = [
        {**row_of(bit), "its_etag": one.etag, "its_last_modified": one.last_modified}
        for bit in bits_of(counted.get(Outcome.NOT_MODIFIED, 0))
        if (one := found.validators.get(bit)) is not None
    ]
    if renewed:
        connection.execute(_RENEW, renewed)


def _places(layer: int, block: Block) -> Row:
    """Returns the parameters that name a block and its 64 places."""
    area = block.area
    columns = {f"x_{number}": x for number, x in enumerate(area.columns)}
    rows = {f"y_{number}": y for number, y in enumerate(area.rows)}
    return {**its_block(layer, block), "y_from": area.y_from, "y_to": area.y_to, **columns, **rows}


def record_versions(
    connection: Connection, harvest: int, day: date, layer: int, block: Block, new: Mapping[int, Version]
) -> None:
    """Writes versions of a harvest's day, which become the latest ones of their tiles, and counts the changes
    of the block anew."""
    rows = []
    for bit, version in new.items():
        tile = block.tile(bit)
        rows.append(version_row((layer, tile.zoom, tile.x, tile.y), version, harvest))
    write_versions(connection, rows)
    follow_versions(connection, layer, block, [day])


def follow_versions(connection: Connection, layer: int, block: Block, days: Collection[date]) -> None:
    """Writes what follows from a block's versions of these days: which are the latest ones of their tiles,
    and how many there are of each day."""
    cover = block.tile(0).ancestor(BLOCK_LEVELS)
    place = (layer, block.zoom, cover.x, cover.y)
    its = _places(layer, block) | {f"cover_{name}": one for name, one in zip(TILE, place, strict=True)}
    its_days = [{**its, "its_day": day} for day in days]
    for statement in (_POINT_AT_VERSIONS, _FORGET_COUNT, _COUNT):
        connection.execute(statement, its_days)


def write_present(connection: Connection, layer: int, block: Block) -> None:
    """Writes anew which tiles of the block are present, by their latest versions."""
    rows = connection.execute(_PRESENT_TILES, _places(layer, block))
    present = mask_of(bit_of(Tile(block.zoom, x, y)) for x, y in rows)
    row = {**its_block(layer, block), "now_present": present}
    if connection.execute(PRESENT, row).rowcount == 0:
        new = {**dict.fromkeys(blocks.c.keys(), 0), "harvest": None, "present": present}
        connection.execute(_WRITE, new | {name: row[f"its_{name}"] for name in BLOCK})


def _begun(row: Mapping[Any, Any] | None, harvest: int) -> dict[str, Any]:
    """Returns the columns of a block's row as they are when this harvest has begun to record in it."""
    begun = dict(row or dict.fromkeys(blocks.c.keys(), 0))
    if begun["harvest"] != harvest:
        begun["reached"] |= results_of(begun)
        begun |= {"harvest": harvest, **dict.fromkeys((*MASKS.values(), "skips"), 0)}
    return begun


def results_of(row: Mapping[Any, Any]) -> int:
    """Returns the tiles for which the harvest of a row of `blocks` has a result."""
    return _all_of(row[name] for name in MASKS.values())


def _join(masks: dict[str, Any], found: Mapping[Outcome, int]) -> dict[Outcome, int]:
    """Joins the masks of a harvest's earlier results with those that it has found now. Of two results for a
    tile the stronger one stays. Returns those of the new results that stay."""
    won = {}
    for outcome, mask in found.items():
        strength = _STRENGTH[outcome]
        resisting = _all_of(masks[name] for one, name in MASKS.items() if _RESISTANCE[one] > strength)
        won[outcome] = mask & ~resisting
        for name in MASKS.values():
            masks[name] &= ~won[outcome]
        masks[MASKS[outcome]] |= won[outcome]
    return won


def _all_of(masks: Iterable[int]) -> int:
    joined = 0
    for mask in masks:
        joined |= mask
    return joined


def blocks_found(results: Iterable[TileResult]) -> Iterator[tuple[Block, FoundBlock]]:
    """Yields the results of single tiles as blocks. No tile has two results."""
    several: defaultdict[tuple[str, int, int, int], dict[int, TileResult]] = defaultdict(dict)
    for one in results:
        several[place_of(one.layer, one.tile)][bit_of(one.tile)] = one
    for place, its in several.items():
        outcomes: dict[Outcome, int] = {}
        for bit, one in its.items():
            outcomes[one.outcome] = outcomes.get(one.outcome, 0) | 1 << bit
        yield (
            Block(*place, mask_of(its)),
            FoundBlock(
                outcomes,
                images={bit: one.image for bit, one in its.items() if one.image is not None},
                validators={bit: one.validator for bit, one in its.items() if one.validator is not None},
                reasons={bit: one.reason for bit, one in its.items() if one.reason is not None},
            ),
        )
