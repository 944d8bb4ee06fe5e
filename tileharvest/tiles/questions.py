"""The question that a request asks of a site: one tile, and what its answer means for the tiles below."""

from __future__ import annotations

import msgspec

from tileharvest.tiles.grid import Tile


class TileQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Has this tile changed? It travels with its request, through queues and to other machines."""

    layer: str = ""
    """Empty where a person has pushed a tile without it: then the map's only layer is meant."""
    tile: Tile | None = None
    """None where a person has pushed an address: then that tells layer and tile."""
    late: bool = False
    """Whether tiles below may have been asked before this one."""
    in_full: bool = False
    """Whether no tile below is to be skipped."""
    audited: bool = False
    """Whether the harvest had skipped the tile. Tiles below are asked only if it has changed."""
    once_more: bool = False
    """Whether the request was given up without an answer, and is tried a last time."""
    expected_bytes: int | None = None
    """Length of the answer to a GET, as the HEAD before it has told; None: unknown."""

    @property
    def place(self) -> tuple[str, Tile]:
        """Layer and tile. To be read only once both are known: when the request is offered."""
        assert self.tile is not None
        return self.layer, self.tile
