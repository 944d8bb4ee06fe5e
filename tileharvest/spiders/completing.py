"""The end of a harvest: whatever was missed is asked for, and when nothing is, its end is written once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING

from tileharvest.queue.requests import ONCE_MORE
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import TileResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request

    from tileharvest.scheduler.fleet import Fleet
    from tileharvest.spiders.tiles import TileSpider


async def complete(spider: TileSpider, work: Fleet | None) -> dict[Outcome, int] | None:
    """When nothing is left to do: the exact counts of the harvest, which has ended, or None if it goes on.

    `work` is None under a scheduler that is not ours. Raises MovedError, HistoryError, QueueError.
    """
    harvesting = spider.harvesting
    if (work is not None and work.is_ended) or await harvesting.is_finished():
        harvesting.ended_here = False
        counts = await harvesting.counts()
    elif await _ask_for_the_missed(spider, work) or (work is not None and not await work.may_end()):
        return None
    else:
        counts = await harvesting.finish()
    if work is not None:
        await work.ended()
    return counts


async def _ask_for_the_missed(spider: TileSpider, work: Fleet | None) -> bool:
    """Whether there was anything: dropped as seen and without a result, known and not reached, or skipped and
    to be looked at after all."""
    doubtful = {} if work is None else await work.doubtful()
    missed = await _without_result(spider, doubtful.values())
    if work is not None:
        missed += await _unanswered(spider, work)
    if not missed:
        # Only now: what is below a tile that was missed would pass for vanished.
        missed = [spider.ask(*one, surely=True, late=True) for one in await spider.harvesting.unasked()]
    if not missed:
        missed = [
            spider.ask(layer, tile, surely=True, **asdict(asked))
            for layer, tile, asked in await spider.harvesting.audit()
        ]
    for request in missed:
        spider.crawler.engine.crawl(request)
    if work is not None and doubtful:
        await work.confirm(list(doubtful))
    return bool(missed)


async def _unanswered(spider: TileSpider, work: Fleet) -> list[Request]:
    """What was given up without a result, as it was leased in process after process that was killed: most of
    it was never sent. It is tried once more; what then has no result again has failed."""
    requests = {}
    for failure, request in await work.given_up():
        requests[request.meta["layer"], Tile(*request.meta["tile"])] = failure, request
    asked: list[Request] = []
    for layer in {layer for layer, _ in requests}:
        tiles = [tile for name, tile in requests if name == layer]
        for tile in await spider.harvesting.without_result(layer, tiles):
            failure, request = requests[layer, tile]
            if ONCE_MORE in request.meta:
                failed = TileResult(layer, tile, Outcome.FAILED, reason=failure.reason)
                await spider.harvesting.keep(failed)
            elif (again := spider.again(request, surely=True)) is not None:
                again.meta[ONCE_MORE] = True
                work.take_up(failure)
                asked.append(again)
    return asked


async def _without_result(spider: TileSpider, requests: Iterable[Request]) -> list[Request]:
    """Those of which the harvest has no result, as they are to be asked surely."""
    by_layer: defaultdict[str, dict[Tile, Request]] = defaultdict(dict)
    for request in requests:
        by_layer[request.meta["layer"]][Tile(*request.meta["tile"])] = request
    missed = []
    for name, asked in by_layer.items():
        for tile in await spider.harvesting.without_result(name, list(asked)):
            again = spider.again(asked[tile], surely=True)
            if again is not None:
                missed.append(again)
    return missed
