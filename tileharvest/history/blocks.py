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

from collections.abc import Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import (
    Date,
    Integer,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    select,
    text,
    update,
)

from tileharvest.history.change_indexes import IS_TRUSTED
from tileharvest.history.connection import BlockStatement
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
    version_row,
    versions,
)
from tileharvest.history.trust import remember, unpack
from tileharvest.tiles.block import SIDE, WHOLE, Block, bit_of, bits_of, mask_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import THERE, Outcome, tiles_with
from tileharvest.tiles.versions import Image, Validator, Version
from tileharvest.walk.walk import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import date

    from sqlalchemy import ColumnElement, Connection, Select, Table

    from tileharvest.history.schema import Row
    from tileharvest.tiles.verdict import Verdict


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
        return tiles_with(self.outcomes, self.outcomes)

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

    def add(self, bit: int, verdict: Verdict) -> None:
        """Adds what was found of a tile of which nothing was found before."""
        self.outcomes[verdict.outcome] = self.outcomes.get(verdict.outcome, 0) | 1 << bit
        if verdict.image is not None:
            self.images[bit] = verdict.image
        if verdict.validator is not None:
            self.validators[bit] = verdict.validator
        if verdict.reason is not None:
            self.reasons[bit] = verdict.reason


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

_ROW: Final = BlockStatement(select(blocks).where(is_block(blocks)))
_REPLACE: Final = replace_into(blocks, *BLOCK)
_WRITE: Final = BlockStatement(_REPLACE)
_COLUMNS: Final = blocks.c.keys()
_MASKS: Final = (*MASKS.values(), "skips", "present", "reached", "failing")
"""The columns of `blocks` with masks."""


def _in_columns(table: Table) -> ColumnElement[bool]:
    """Returns the SQL that says whether a row is of a column of the block that `_places` names."""
    return and_(
        table.c.layer == bindparam("its_layer"),
        table.c.zoom == bindparam("its_zoom"),
        # The database goes to the rows of each column directly. For a range it would read those above and
        # below the block, too.
        table.c.x.in_([bindparam(f"x_{number}") for number in range(SIDE)]),
    )


_OF_TILES: Final = _in_columns(tiles) & tiles.c.y.between(bindparam("y_7"), bindparam("y_0"))
# Each tile by itself, as it may have versions of many days.
_OF_VERSIONS: Final = _in_columns(versions) & versions.c.y.in_(
    [bindparam(f"y_{number}") for number in range(SIDE)]
)
_PRESENT_TILES: Final = (
    select(tiles.c.x, tiles.c.y)
    .join_from(tiles, versions, versions.c.id == tiles.c.version)
    .where(_OF_TILES, versions.c.sha1.is_not(None))
)


def _look_up(json_object: Callable[..., Any], json_by_key: Callable[..., Any]) -> Select[Any]:
    """Returns the query for all that is known of a block, given two functions of the database. The latest
    versions are by bit, as an object of JSON in which each has the fields of `Version`."""

    def with_names(**fields: object) -> Any:
        return json_object(*(part for name, one in fields.items() for part in (text(f"'{name}'"), one)))

    day, sha1, extension, size, etag, last_modified = VERSION
    version = with_names(
        day=day,
        image=case((sha1.is_not(None), with_names(sha1=sha1, extension=extension, size=size))),
        validator=with_names(etag=etag, last_modified=last_modified),
    )
    # The same as `bit_of`.
    bit = text("(7 - ((tiles.y >> :shift) & 7)) * 8 + ((tiles.x >> :shift) & 7)")
    latest = (
        # A damaged row may point at the version of another tile, or at none. Only the id is joined: by the
        # tile, too, PostgreSQL looks each time through all versions of the zoom, as long as it knows nothing
        # of the table, and takes 3 s for 1,024 tiles of 4,096.
        select(cast(json_by_key(bit, case((is_same_tile(versions, tiles), version))), Text))
        .join_from(tiles, versions, versions.c.id == tiles.c.version, isouter=True)
        .where(_OF_TILES)
        .scalar_subquery()
    )
    return (
        select(blocks.c.harvest, validators.c.whole, validators.c.packed, IS_TRUSTED, latest)
        .add_columns(blocks.c.present, blocks.c.skips, *(blocks.c[name] for name in MASKS.values()))
        .outerjoin(validators, and_(*(validators.c[name] == blocks.c[name] for name in BLOCK)))
        .where(is_block(blocks))
    )


_LOOK_UP: Final = BlockStatement(
    _look_up(func.json_object, func.json_group_object),
    _look_up(func.json_build_object, func.json_object_agg),
)
_VERSIONS: Final = msgspec.json.Decoder(dict[int, Version])
_PRESENT: Final = update(blocks).where(is_block(blocks)).values(present=bindparam("now_present"))
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


WRITE_VERSIONS: Final = BlockStatement(replace_into(versions, *TILE, "day"))
"""Writes what `version_row` returns. A row replaces that of the same tile and day."""
_OF_DAY: Final = _OF_VERSIONS & (versions.c.day == bindparam("its_day", type_=Date))
_LATER: Final = versions.alias()
_POINTING: Final = insert_into(tiles).from_select(
    [*TILE, "version"],
    select(*(versions.c[name] for name in (*TILE, "id"))).where(
        _OF_DAY, ~exists().where(is_same_tile(_LATER, versions), _LATER.c.day > versions.c.day)
    ),
)
_POINT_AT_VERSIONS: Final = BlockStatement(
    _POINTING.on_conflict_do_update(
        index_elements=[tiles.c[name] for name in TILE], set_={"version": _POINTING.excluded.version}
    )
)
_ITS_COUNT: Final = and_(*(changes.c[name] == bindparam(f"cover_{name}") for name in TILE))
_FORGET_COUNT: Final = BlockStatement(
    delete(changes).where(_ITS_COUNT, changes.c.day == bindparam("its_day"))
)
_COUNT: Final = BlockStatement(
    insert_into(changes).from_select(
        list(changes.c.keys()),
        select(*(bindparam(f"cover_{name}", type_=Integer) for name in TILE), versions.c.day, func.count())
        .where(_OF_DAY)
        .group_by(versions.c.day),
    )
)


def look_up(connection: Connection, harvest: int, layer: int, block: Block) -> KnownBlock:
    """Returns what is known of the block's 64 places, whatever its mask.

    `harvest` and `layer` are ids. Takes one query. What this harvest has seen itself is not trusted before
    its end, and nothing is if it has withdrawn trust in the layer. Raises ValueError if the rows are damaged.
    """
    its = _places(layer, block) | {"shift": 1 - block.zoom, "in_layer": layer, "in_harvest": harvest}
    row = _LOOK_UP.execute(connection, its).fetchone()
    if row is None:
        return KnownBlock()
    last_harvest, whole, packed, is_trusted, latest, present, skips, *masks = row
    try:
        known = {} if latest is None else _VERSIONS.decode(latest)
    except msgspec.DecodeError as error:
        raise ValueError(f"the versions of a block cannot be read: {error}") from error
    remembered = {} if packed is None else unpack(packed)
    trusted = whole & WHOLE if is_trusted and whole else 0
    if last_harvest != harvest:
        return KnownBlock(known, remembered, trusted, present=present & WHOLE)
    found = {one: mask & WHOLE for one, mask in zip(MASKS, masks, strict=True) if mask}
    return KnownBlock(known, remembered, trusted, found, skips & WHOLE, present & WHOLE)


def record(
    connection: Connection, harvest: int, day: date, layer: int, block: Block, found: FoundBlock
) -> None:
    """Records what a harvest found in a block. `harvest` and `layer` are ids.

    The caller has changed the harvest's row in this transaction, so no other program records for the map at
    the same time.
    """
    its = its_block(layer, block)
    row = _ROW.execute(connection, its).fetchone()
    remembered, told = remember(connection, harvest, its, found)
    counted: Mapping[Outcome, int] = found.outcomes
    if not found.is_kept:
        counted = {Outcome.FAILED: counted.get(Outcome.FAILED, 0)}
    new = _begun(row, harvest)
    won = _join(new, counted)
    new["skips"] = new["skips"] & ~told | found.skips & remembered
    new["present"] |= mask_of(found.images)
    failed = won.pop(Outcome.FAILED, 0)
    recovered = new["failing"] & tiles_with(won, won)
    new["failing"] = new["failing"] & ~recovered | failed
    for name in _MASKS:
        # Databases have no whole numbers of 64 bits without a sign.
        new[name] -= new[name] >> 63 << 64
    _WRITE.execute(connection, new | {name: its[f"its_{name}"] for name in BLOCK})
    if failed:
        rows = _rows_of(layer, block, failed)
        reasons = [{**row, "in_harvest": harvest, "why": found.reasons[bit]} for bit, row in rows]
        connection.execute(_FAIL, reasons)
    if recovered:
        connection.execute(_RECOVER, [row for _, row in _rows_of(layer, block, recovered)])
    if found.images or (found.validators and found.is_kept):
        _record_fetched(connection, harvest, day, layer, block, found)


def _record_fetched(
    connection: Connection, harvest: int, day: date, layer: int, block: Block, found: FoundBlock
) -> None:
    """Records the new versions of a block, and the new validators of tiles that have the bytes of their
    latest version."""
    said = found.validators
    if found.images:
        new = {bit: Version(day, one, said.get(bit, Validator())) for bit, one in found.images.items()}
        record_versions(connection, harvest, day, layer, block, new)
    renewed = [
        {**row, "its_etag": said[bit].etag, "its_last_modified": said[bit].last_modified}
        for bit, row in _rows_of(layer, block, found.outcomes.get(Outcome.NOT_MODIFIED, 0) & mask_of(said))
    ]
    if renewed:
        connection.execute(_RENEW, renewed)


def _rows_of(layer: int, block: Block, mask: int) -> Iterator[tuple[int, Row]]:
    """Yields the bits of a mask, each with the parameters that name its tile."""
    for bit in bits_of(mask):
        tile = block.tile(bit)
        yield bit, its_tile(layer, tile.zoom, tile.x, tile.y)


def _places(layer: int, block: Block) -> Row:
    """Returns the parameters that name a block and its 64 places."""
    its = its_block(layer, block)
    for number in range(SIDE):
        its[f"x_{number}"] = 2 * (block.column * SIDE + number) + 1 << -block.zoom
        its[f"y_{number}"] = -(2 * (block.row * SIDE + number) + 1) << -block.zoom
    return its


def record_versions(
    connection: Connection, harvest: int, day: date, layer: int, block: Block, new: Mapping[int, Version]
) -> None:
    """Writes versions of a harvest's day, which become the latest ones of their tiles, and counts the changes
    of the block anew."""
    rows = []
    for bit, version in new.items():
        tile = block.tile(bit)
        rows.append(version_row((layer, tile.zoom, tile.x, tile.y), version, harvest))
    WRITE_VERSIONS.execute(connection, rows)
    follow_versions(connection, layer, block, [day])


def follow_versions(connection: Connection, layer: int, block: Block, days: Collection[date]) -> None:
    """Writes what follows from a block's versions of these days: which are the latest ones of their tiles,
    and how many there are of each day."""
    cover = block.tile(0).ancestor(BLOCK_LEVELS)
    place = (layer, block.zoom, cover.x, cover.y)
    its = _places(layer, block) | {f"cover_{name}": one for name, one in zip(TILE, place, strict=True)}
    for day in days:
        its["its_day"] = day.isoformat()
        for statement in (_POINT_AT_VERSIONS, _FORGET_COUNT, _COUNT):
            statement.execute(connection, its)


def write_present(connection: Connection, layer: int, block: Block) -> None:
    """Writes anew which tiles of the block are present, by their latest versions."""
    rows = connection.execute(_PRESENT_TILES, _places(layer, block))
    present = mask_of(bit_of(Tile(block.zoom, x, y)) for x, y in rows)
    row = {**its_block(layer, block), "now_present": present}
    if connection.execute(_PRESENT, row).rowcount == 0:
        new = {**dict.fromkeys(blocks.c.keys(), 0), "harvest": None, "present": present}
        connection.execute(_REPLACE, new | {name: row[f"its_{name}"] for name in BLOCK})


def _begun(row: Sequence[Any] | None, harvest: int) -> dict[str, Any]:
    """Returns the columns of a block's row as they are when this harvest has begun to record in it."""
    begun: dict[str, Any] = dict(zip(_COLUMNS, row or repeat(0), strict=False))
    for name in _MASKS:
        begun[name] &= WHOLE
    if begun["harvest"] != harvest:
        for name in MASKS.values():
            begun["reached"] |= begun[name]
            begun[name] = 0
        begun["skips"], begun["harvest"] = 0, harvest
    return begun


def _join(masks: dict[str, Any], found: Mapping[Outcome, int]) -> dict[Outcome, int]:
    """Joins the masks of a harvest's earlier results with those that it has found now. Of two results for a
    tile the stronger one stays. Returns those of the new results that stay."""
    won = {}
    for outcome, mask in found.items():
        for one, name in MASKS.items():
            if _RESISTANCE[one] > _STRENGTH[outcome]:
                mask &= ~masks[name]  # noqa: PLW2901
        for name in MASKS.values():
            masks[name] &= ~mask
        masks[MASKS[outcome]] |= mask
        won[outcome] = mask
    return won
