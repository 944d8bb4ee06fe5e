"""The question that a request asks of a site: one tile, and how it is asked."""

from __future__ import annotations

from typing import Final

import msgspec

from tileharvest.tiles.grid import Tile


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a tile is asked for."""

    late: bool = False
    """What lies below it may have been asked before: the walk did not reach it, or it is audited, or it is
    asked again. So its answer may be younger than what was found below it."""
    in_full: bool = False
    """Nothing below it is to be skipped, although its layer's walk is pruned: trust was withdrawn."""
    audited: bool = False
    """It was skipped. Unchanged it skips again, so that what lies below it is asked if the proof breaks."""
    again: bool = False
    """A lease on it was lost. So it may be late, and its image may be in the store already."""

    @property
    def below(self) -> Asked:
        """How the tiles below it are asked for."""
        return IN_FULL if self.in_full else ON_WALK


ON_WALK: Final = Asked()
"""The tile is asked for the first time in a harvest, on the way down."""
LATE: Final = Asked(late=True)
IN_FULL: Final = Asked(in_full=True)


class TileQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Has this tile changed? It travels with its request, through queues and to other machines."""

    layer: str = ""
    """Empty where a person has pushed a tile without it: then the map's only layer is meant."""
    tile: Tile | None = None
    """None where a person has pushed an address: then that tells layer and tile."""
    asked: Asked = ON_WALK
    once_more: bool = False
    """Whether the request was given up without an answer, and is tried a last time."""

    @property
    def place(self) -> tuple[str, Tile]:
        """Layer and tile. They are known once the request is offered; read this only then."""
        assert self.tile is not None
        return self.layer, self.tile
