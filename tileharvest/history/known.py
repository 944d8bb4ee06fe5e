"""Latest versions of tiles and what the walk remembers of them, fetched with those of their neighbours."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.history.harvests import Harvest
    from tileharvest.tiles.versions import Version
    from tileharvest.walk.pruning import Mark

LEVELS: Final = 4
"""A block holds the 16 x 16 tiles that lie this many levels below one tile. A walk downwards asks for
neighbours soon after each other: one query in about 256 look-ups."""

MOST_BLOCKS: Final = 64
"""Blocks kept; with about 0.6 KB per version 10 MB at the very most, all blocks full."""

_Key: TypeAlias = tuple[str, int, int, int]
_Value = TypeVar("_Value")


class _Blocks(Generic[_Value]):
    """What a query knows of tiles, a block at a time. Used from one asyncio event loop."""

    def __init__(self, query: Callable[[str, TileRange], dict[Tile, _Value]]) -> None:
        self._query = query
        self._blocks: OrderedDict[_Key, dict[Tile, _Value]] = OrderedDict()
        self._fetching: dict[_Key, asyncio.Task[dict[Tile, _Value]]] = {}
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="history-reader")

    def forget(self) -> None:
        """Has the history asked anew from now on. Who is waiting still gets what was known before."""
        # New ones, as the queries under way put their blocks into the old ones.
        self._blocks, self._fetching = OrderedDict(), {}

    def close(self) -> None:
        """Ends the reader thread; a query that runs is waited for."""
        self._reader.shutdown()

    async def _value(self, layer: str, tile: Tile) -> _Value | None:
        zoom = tile.zoom
        shift = 1 - zoom + LEVELS
        key = (layer, zoom, tile.x >> shift, tile.y >> shift)
        block = self._blocks.get(key)
        if block is None:
            block = await self._fetched(key)
        else:
            self._blocks.move_to_end(key)
        return block.get(tile)

    async def _fetched(self, key: _Key) -> dict[Tile, _Value]:
        task = self._fetching.get(key)
        if task is None:
            task = asyncio.create_task(self._fetch(key, self._blocks, self._fetching))
            self._fetching[key] = task
        # Whoever is cancelled must not take the answer from the others who wait for the same block.
        return await asyncio.shield(task)

    async def _fetch(
        self,
        key: _Key,
        blocks: OrderedDict[_Key, dict[Tile, _Value]],
        fetching: dict[_Key, asyncio.Task[dict[Tile, _Value]]],
    ) -> dict[Tile, _Value]:
        layer, zoom, column, row = key
        loop = asyncio.get_running_loop()
        try:
            area = block_area(zoom, column, row)
            block = await loop.run_in_executor(self._reader, self._query, layer, area)
        finally:
            del fetching[key]
        blocks[key] = block
        if len(blocks) > MOST_BLOCKS:
            blocks.popitem(last=False)
        return block


class KnownVersions(_Blocks["Version"]):
    """Answers what was known of a tile before this harvest judged it. Used from one asyncio event loop.

    An answer may be stale: a version recorded after its block was fetched is not seen. That is harmless
    because a harvest judges each tile once; and if a tile is judged again after a kill, the program is a
    new one and so is its cache. Only a tile that is asked twice by one program may be judged by the
    older version, which gives another outcome but records the same bytes.
    """

    def __init__(self, harvest: Harvest) -> None:
        super().__init__(harvest.latest)

    async def version(self, layer: str, tile: Tile) -> Version | None:
        """The tile's latest version, which may be `gone`; None if it never had one.

        Raises HistoryError when the history cannot be read; a later call asks it again. Raises
        ValueError for a layer that the harvest does not have.
        """
        return await self._value(layer, tile)


class KnownMarks(_Blocks["Mark"]):
    """Answers what is remembered of a tile for the walk. Used from one asyncio event loop.

    An answer may be stale, as those of `KnownVersions`: what this harvest has recorded since is not seen.
    That is harmless, as it is not trusted before the end. But trust may be withdrawn, by this process or
    another: then call `forget`. `Harvest.distrust` tells what was skipped nevertheless.
    """

    def __init__(self, harvest: Harvest) -> None:
        super().__init__(harvest.marks)

    async def mark(self, layer: str, tile: Tile) -> Mark | None:
        """None if nothing is remembered of the tile. Raises as `KnownVersions.version`."""
        return await self._value(layer, tile)


def block_area(zoom: int, column: int, row: int) -> TileRange:
    """The tiles of a block, the column-th from the centre to the right and the row-th upwards.

    The grid's lines of a coarser zoom are lines of all finer ones, so a block never cuts a tile.
    """
    unit = 1 << -zoom
    width = unit << (LEVELS + 1)
    x, y = column * width, row * width
    return TileRange(zoom, x + unit, x + width - unit, y + unit, y + width - unit)
