"""The history of blocks: what it knows of a block before a harvest judges it, and what a harvest found there.

A block is 8 x 8 neighbouring tiles of one zoom. All masks have 64 bits, which `tiles.block` numbers, and all
dictionaries here are by the number of a tile's bit, 0 to 63. An unchanged block costs one read and one small
write.

`HarvestRecord` has three methods over these values:

- `look_up_block(layer, zoom, column, row) -> KnownBlock`, in one read. Call it in `History.reader`.
- `record_block(layer, zoom, column, row, found, cost)`, in one transaction that is durable on return.
- `recording_block(...)`, with the same arguments, returns a function for `History.writer.submit`. Blocks that
  wait for the writer at the same time share a transaction, so several blocks on the way cost one flush of the
  disk. The future of `submit` is done when the block is durable. End its lease then.

Recording is idempotent. Masks are joined with those that the harvest has recorded for the block before, so
the same block twice, or the rest of a block that was cut short, counts each tile once. If a tile has two
outcomes in one harvest, the stronger one stays: `fail` is the weakest, then `404`, `ign`, `nMod`, `rep`, and
`upd` and `add`. `gone` is provisional until the harvest ends, and gives way to any outcome of a tile that is
there.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Image, Validator, Version
from tileharvest.walk.trust import Mark


class KnownBlock(msgspec.Struct, frozen=True):
    """What the history knows of a block's tiles."""

    versions: Mapping[int, Version] = {}
    """The latest version of each tile that has one. It may be `gone`."""
    remembered: Mapping[int, Mark] = {}
    """What the walk remembers of the last answers. No mark of this harvest is trusted before its end."""
    outcomes: Mapping[Outcome, int] = {}
    """What this harvest has found already, by whatever process: a mask for each outcome that occurred."""

    @property
    def asked(self) -> int:
        """The tiles for which this harvest has a result, failures included."""
        mask = 0
        for one in self.outcomes.values():
            mask |= one
        return mask

    @property
    def failed(self) -> int:
        """The tiles for which this harvest has nothing but a failure."""
        return self.outcomes.get(Outcome.FAILED, 0)


class FoundBlock(msgspec.Struct, frozen=True):
    """What a harvest found in a block, with all that recording it needs."""

    outcomes: Mapping[Outcome, int]
    """A mask for each outcome. No tile is in two of them; tiles that were not asked are in none."""
    images: Mapping[int, Image] = {}
    """The images of new versions, for exactly the tiles that are `add`, `upd` or `rep`."""
    validators: Mapping[int, Validator] = {}
    """The validators of the GET answers of tiles with an image, and of those that are `nMod`."""
    reasons: Mapping[int, str] = {}
    """For exactly the failed tiles the reason, in a line for a person."""
    seen: Mapping[int, Validator] = {}
    """What the walk is to remember. An empty validator stands for a tile that is not there."""
    skips: int = 0
    """The unchanged tiles below which nothing is asked."""
    doubts: int = 0
    """The tiles whose remembered validator is of another state, and whose new one came too late."""
    is_kept: bool = True
    """Whether the map keeps the zoom. If not, only failures and what the walk remembers are recorded."""
