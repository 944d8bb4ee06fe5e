"""What the history knows of tiles, fetched together with what it knows of their neighbours."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from tileharvest.tiles.grid import TileRange

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from tileharvest.tiles.grid import Tile

LEVELS: Final = 4
"""A block holds the 16 x 16 tiles that lie this many levels below one tile. A walk downwards asks for
neighbours soon after each other: one query in about 256 look-ups. The four blocks around the centre of a map
are one, so that a small map takes one query per zoom."""

MOST_BLOCKS: Final = 16
"""How many blocks are kept. A version takes about 0.6 KB, so 16 full blocks take 2.5 MB. A walk downwards
goes from block to block, and so more blocks would save no query."""

_AROUND: Final = (-1, 0)
"""Columns, and rows, of the blocks around the centre of the map."""
_CENTRE: Final = (0, 0)

_Key: TypeAlias = tuple[str, int, int, int]
_Value = TypeVar("_Value")


class Known(Generic[_Value]):
    """Answers what was known of a tile before this harvest judged it. Used from one asyncio event loop.

    An answer may be stale: it does not have what was recorded after its block was fetched.

    For versions that is harmless, because a harvest judges each tile once. After a kill it may judge a tile
    again, but then another process looks it up anew. Where one process asks for a tile twice, it may judge by
    the older version: the outcome is another one, and the bytes that are recorded are the same.

    For marks it is harmless too, because no mark of this harvest is trusted before its end. But trust may be
    withdrawn, by this process or by another one: then call `forget`.
    """

    def __init__(self, query: Callable[[str, TileRange], dict[Tile, _Value]], reader: Executor) -> None:
        """`query` is `HarvestRecord.latest` or its `marks`. `reader` is `History.reader`."""
        self._query = query
        self._blocks: OrderedDict[_Key, dict[Tile, _Value]] = OrderedDict()
        self._fetching: dict[_Key, asyncio.Task[dict[Tile, _Value]]] = {}
        self._reader = reader

    async def of(self, layer: str, tile: Tile) -> _Value | None:
        """Returns what is known of the tile, or None when nothing is known.

        Raises HistoryError when the history cannot be read; a later call asks it again. Raises ValueError for
        a layer that the harvest does not have.
        """
        block = self._block(layer, tile)
        if block is None:
            # Whoever is cancelled must not take the answer from the others who wait for the same block.
            block = await asyncio.shield(self._fetching_of(_key_of(layer, tile), tile))
        return block.get(tile)

    def fetch(self, layer: str, tile: Tile) -> asyncio.Task[dict[Tile, _Value]] | None:
        """Begins to fetch what is known of the tile. Returns what is done when it is at hand, or has failed;
        None where it is at hand."""
        return None if self._block(layer, tile) is not None else self._fetching_of(_key_of(layer, tile), tile)

    def at_hand(self, layer: str, tile: Tile) -> tuple[bool, _Value | None]:
        """Returns whether what is known of the tile is at hand, and what it is. Asks no history."""
        block = self._block(layer, tile)
        return (False, None) if block is None else (True, block.get(tile))

    @property
    def is_asked(self) -> bool:
        """Whether the history has not answered yet."""
        return bool(self._fetching)

    def _block(self, layer: str, tile: Tile) -> dict[Tile, _Value] | None:
        key = _key_of(layer, tile)
        block = self._blocks.get(key)
        if block is not None:
            self._blocks.move_to_end(key)
        return block

    def forget(self) -> None:
        """Forgets all blocks. Whoever waits for a block still gets what was known before."""
        # New ones, as the queries under way put their blocks into the old ones.
        self._blocks, self._fetching = OrderedDict(), {}

    def _fetching_of(self, key: _Key, tile: Tile) -> asyncio.Task[dict[Tile, _Value]]:
        task = self._fetching.get(key)
        if task is None:
            task = self._fetching[key] = asyncio.create_task(self._fetch(key, tile))
            # Nobody may be left who waits for it: whoever needs the block asks again, and learns why.
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    async def _fetch(self, key: _Key, tile: Tile) -> dict[Tile, _Value]:
        # Those of now: after `forget` this block belongs into the old ones.
        blocks, fetching = self._blocks, self._fetching
        if key[2:] == _CENTRE:
            area = TileRange.around(tile.zoom, _CENTRE, 2 << LEVELS, 2 << LEVELS)
        else:
            area = TileRange.of(tile.ancestor(LEVELS)).at_zoom(tile.zoom)
        try:
            block = await asyncio.get_running_loop().run_in_executor(self._reader, self._query, key[0], area)
        finally:
            fetching.pop(key, None)
        blocks[key] = block
        if len(blocks) > MOST_BLOCKS:
            blocks.popitem(last=False)
        return block


def _key_of(layer: str, tile: Tile) -> _Key:
    column, row = tile.block(LEVELS)
    if column in _AROUND and row in _AROUND:
        column, row = _CENTRE
    return layer, tile.zoom, column, row
