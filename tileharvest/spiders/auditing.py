"""The end of a pruned harvest: some of what it skipped is asked all the same, and all if that was wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request

    from tileharvest.spiders.tiles import TileSpider
    from tileharvest.tiles.grid import Tile


async def audit(spider: TileSpider) -> list[Request]:
    """What is still to be asked before the harvest may end; empty when the audit is over and all is well, or
    mended. Raises HistoryError."""
    harvesting, requests = spider.harvesting, []
    await harvesting.flush()
    distrusted = dict(await harvesting.walking.distrusted())
    for name in harvesting.layers:
        if name not in distrusted:
            to_audit = await harvesting.walking.to_audit(name)
            tiles = to_audit.tiles
            found = await harvesting.walking.found(name, tiles)
            missing = [tile for tile in tiles if tile not in found]
            requests += _asked(spider, name, missing, late=True, audited=True)
            wrong = [] if missing else to_audit.broken(found)
            if wrong:
                distrusted[name] = (
                    f"tile {wrong[0]} had changed below one that had not, found on {harvesting.day}"
                )
                spider.logger.warning(
                    "layer %s: %s; all of it is asked now, and nothing of it is skipped until a full harvest"
                    " shows that its times can be relied on",
                    name,
                    distrusted[name],
                )
            elif tiles and not missing:
                spider.logger.info(
                    "layer %s: %d of the skipped tiles were asked, seed %s: none had changed",
                    name,
                    len(tiles),
                    harvesting.walking.seed,
                )
        if name in distrusted:
            tops = await harvesting.walking.distrust(name, distrusted[name])
            requests += _asked(spider, name, tops, in_full=True)
    return requests


def _asked(spider: TileSpider, name: str, tiles: Sequence[Tile], **kinds: bool) -> list[Request]:
    layer = spider.harvesting.layers[name].layer
    return [spider.ask(layer, tile, surely=True, **kinds) for tile in tiles]
