"""The question that a request asks of a site: one tile, and how it is asked."""

from __future__ import annotations

from typing import Final

import msgspec

from tileharvest.tiles.grid import Tile


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
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
    again: bool = False
    """Whether a lease on this tile was lost. Its image may then be in the store already."""

    @property
    def below(self) -> Asked:
        """How the tiles below this one are asked for."""
        return IN_FULL if self.in_full else ON_WALK


ON_WALK: Final = Asked()
"""For a tile that is asked for the first time in a harvest, on the way down."""
LATE: Final = Asked(late=True)
IN_FULL: Final = Asked(in_full=True)


class TileQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Has this tile changed? It travels with its request, through queues and to other machines."""

    layer: str = ""
    """The layer's name. Empty if a person has pushed a tile without naming the layer: then the map's only
    layer is meant."""
    tile: Tile | None = None
    """The tile. None if a person has pushed an address, which then tells layer and tile."""
    asked: Asked = ON_WALK
    once_more: bool = False
    """Whether the request was given up without an answer before, and is tried a last time."""

    @property
    def place(self) -> tuple[str, Tile]:
        """Layer and tile. Read this only after the request was offered: a pushed address is resolved then."""
        assert self.tile is not None
        return self.layer, self.tile
