"""How a tile is asked for."""

from __future__ import annotations

from typing import Final

import msgspec

TILE_MARK: Final = "#tile="
"""Follows the address of a map's page in the address of a tile that a person has pushed by its name:
`#tile=LAYER/TILE`. The layer may be missing if there is only one."""


class Asked(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """How a tile is asked for."""

    late: bool = False
    """Whether tiles below this one may have been asked before it. That is so if the walk did not reach the
    tile, if it is audited, and if it is asked again. Its answer may then be younger than what was found below
    it."""
    in_full: bool = False
    """Whether everything below the tile is asked although its layer's walk is pruned, because trust was
    withdrawn."""
    audited: bool = False
    """Whether the tile was skipped and is asked for the audit. If it is unchanged, the tiles below it stay
    skipped, and they are asked later if the audit breaks the proof."""

    @property
    def below(self) -> Asked:
        """How the tiles below this one are asked for."""
        return IN_FULL if self.in_full else ON_WALK


ON_WALK: Final = Asked()
"""For a tile that is asked for the first time in a harvest, on the way down."""
LATE: Final = Asked(late=True)
IN_FULL: Final = Asked(in_full=True)
