"""The validators that the walk remembers of a block's tiles: read, written and packed."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from sqlalchemy import bindparam, select, update

from tileharvest.history.schema import BLOCK, is_block, replace_into, validators
from tileharvest.tiles.block import bits_of, mask_of
from tileharvest.tiles.outcomes import CHANGED, Outcome
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tileharvest.history.blocks import FoundBlock
    from tileharvest.history.schema import Row

Validators: TypeAlias = dict[int, tuple[str | None, str | None]]
"""By the bits of their tiles: ETag and Last-Modified, as the server wrote them."""

_QUICKLY: Final = 1
"""zlib's level. A block's validators are 3 KB, of which a third is left."""
_READER: Final = msgspec.msgpack.Decoder(Validators)
_ABSENT: Final = Validator()

_ROW: Final = select(validators).where(is_block(validators))
_WRITE: Final = replace_into(validators, *BLOCK)
_LOSE_TRUST: Final = update(validators).where(is_block(validators)).values(whole=bindparam("still_whole"))


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
    changed = 0
    for outcome in CHANGED:
        changed |= found.outcomes.get(outcome, 0)
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
        connection.execute(_LOSE_TRUST, {**its, "still_whole": whole})
    return old["there"], told
