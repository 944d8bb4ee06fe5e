"""A cache of what the history knows of tiles. It is filled by blocks of neighbouring tiles."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

from tileharvest.tiles.grid import TileRange

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from tileharvest.tiles.grid import Cell, Tile
    from tileharvest.tiles.versions import Version
    from tileharvest.walk.trust import Mark

    KnownBlock: TypeAlias = tuple[dict[Cell, Version], dict[Cell, Mark]]

LEVELS: Final = 5
"""A block holds the 32 x 32 tiles that lie this many levels below one tile. A walk downwards looks up
neighbours shortly after each other, so about 1,024 tiles share one query. As many tiles around the centre
of a map are one block, so that a small map takes one query for each zoom."""

MOST_BLOCKS: Final = 8
"""The number of blocks in memory. A version takes about 0.6 KB, so eight full blocks take 5 MB. More blocks
would save no query, because a walk downwards leaves a block and does not come back to it."""

_AROUND: Final = (-1, 0)
"""The columns of the four squares around the centre of the map that have a quarter of a block's tiles each.
Their rows are the same numbers."""
_CENTRE: Final = (1 << 40, 1 << 40)
"""Stands for column and row of the block around the centre. No other block lies so far out."""

BlockKey: TypeAlias = tuple[str, int, int, int]
"""The name of a block: layer, zoom, column and row, rows counted upwards."""


def block_of(layer: str, tile: Tile) -> BlockKey:
    """Returns the key of the tile's block."""
    column, row = tile.block(LEVELS - 1)
    if column in _AROUND and row in _AROUND:
        return layer, tile.zoom, *_CENTRE
    return layer, tile.zoom, column >> 1, row >> 1


class Known:
    """Returns what was known of a tile before this harvest judged it: its latest version, and its mark for
    the walk. Used from one asyncio event loop.

    An answer may be stale: results that were recorded after its block was fetched are not in it.

    Stale versions do no harm, because a harvest judges each tile once. After a kill a tile may be judged
    again, but then by another process, which fetches the block anew. If one process asks for a tile twice, it
    may judge by the older version. The outcome may differ then, but the recorded bytes are the same.

    Stale marks do no harm either, because no mark of this harvest is trusted before its end. The exception is
    trust that is withdrawn, by this process or by another one: call `forget` then.
    """

    def __init__(self, query: Callable[[str, TileRange], KnownBlock], reader: Executor) -> None:
        """`query` is `HarvestRecord.look_up`. It runs in `reader`, which is `History.reader`."""
        self._query = query
        self._blocks: OrderedDict[BlockKey, KnownBlock] = OrderedDict()
        self._fetching: dict[BlockKey, asyncio.Task[KnownBlock]] = {}
        self._reader = reader

    async def of(self, layer: str, tile: Tile) -> tuple[Version | None, Mark | None]:
        """Returns the tile's latest version and its mark, each None if there is none. A gone version is a
        version, too.

        Raises HistoryError if the history cannot be read; a later call tries again. Raises KeyError for a
        layer that the harvest does not have.
        """
        key = block_of(layer, tile)
        block = self._blocks.get(key)
        if block is None:
            # If one caller is cancelled, the others that wait for the same block still get it.
            block = await asyncio.shield(self._fetching_of(key, tile))
        else:
            self._blocks.move_to_end(key)
        (versions, marks), cell = block, (tile.zoom, tile.x, tile.y)
        return versions.get(cell), marks.get(cell)

    def fetch(self, key: BlockKey, tile: Tile) -> asyncio.Task[KnownBlock] | None:
        """Begins to fetch the tile's block and returns the task, or None if the block is in memory.

        The task ends when the block is in memory, or when the query has failed."""
        if key not in self._blocks:
            return self._fetching_of(key, tile)
        self._blocks.move_to_end(key)
        return None

    def at_hand(self, key: BlockKey) -> KnownBlock | None:
        """Returns the versions and the marks of a block's tiles, or None if the block is not in memory. Asks
        no history."""
        return self._blocks.get(key)

    @property
    def is_asked(self) -> bool:
        """Whether any query waits for its answer."""
        return bool(self._fetching)

    def forget(self) -> None:
        """Forgets all blocks. Callers that wait for a block now still get what was known before."""
        # New dictionaries, because queries that are under way put their blocks into the old ones.
        self._blocks, self._fetching = OrderedDict(), {}

    def _fetching_of(self, key: BlockKey, tile: Tile) -> asyncio.Task[KnownBlock]:
        task = self._fetching.get(key)
        if task is None:
            task = self._fetching[key] = asyncio.create_task(self._fetch(key, tile))
            # If nobody waits any more, the error is dropped. The next look-up of the block meets it again.
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    async def _fetch(self, key: BlockKey, tile: Tile) -> KnownBlock:
        # `forget` may replace both while the query is under way. This block belongs into the old ones then.
        blocks, fetching = self._blocks, self._fetching
        if key[2:] == _CENTRE:
            area = TileRange.around(tile.zoom, (0, 0), 1 << LEVELS, 1 << LEVELS)
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
