"""The beginning of a harvest: everything that must be known before the first tile is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileharvest.history.costs import NO_COST
from tileharvest.politeness.limits import budget_of_run
from tileharvest.spiders.fetching import fetch_with
from tileharvest.spiders.manners import probe_politely

if TYPE_CHECKING:
    from tileharvest.renderers.site import Site
    from tileharvest.scheduler.fleet import Fleet
    from tileharvest.spiders.tiles import TileSpider


async def begin(spider: TileSpider) -> None:
    """Wait until the site may be asked, probe it, and open the spider's harvest.

    In this order, so that what ends the run costs the site nothing if that can be. Raises TileHarvestError of
    every kind, and CancelledError when the crawl is about to end.
    """
    harvesting, scheduler = spider.harvesting, _scheduler_of(spider)
    await harvesting.expect_work()
    await _be_allowed(spider)
    site, spider.robots = await probe_politely(
        spider.probe, harvesting.description, fetch_with(spider.crawler), obeys=spider.rules.robots
    )
    if hasattr(scheduler, "obey"):
        scheduler.obey(spider.robots.gap)
    if site.probed:
        spider.logger.info("the site has no configuration: depths were found by asking for tiles")
    await harvesting.open(site)
    _tell(spider, site)


async def offer(spider: TileSpider) -> tuple[Fleet | None, bool]:
    """Let requests be offered: the work then, and whether the first ones are to be made by this worker.

    Other schedulers than ours know no such work.
    """
    scheduler = _scheduler_of(spider)
    if not hasattr(scheduler, "release"):
        return None, True
    harvesting = spider.harvesting
    work: Fleet | None = await scheduler.release(harvesting.identity, continued=harvesting.continued)
    return work, work is not None and work.is_first


def _scheduler_of(spider: TileSpider) -> Any:
    """Ours, or another one, which lacks what is asked of it here."""
    return spider.crawler.engine.scheduler


async def _be_allowed(spider: TileSpider) -> None:
    """Wait until the site may be asked, and find out how much of it."""
    harvesting, rules, scheduler = spider.harvesting, spider.rules, _scheduler_of(spider)
    harvesting.check_room()
    spent = await harvesting.spent() if rules.daily_budget else NO_COST
    budget = budget_of_run(harvesting.description.name, rules.budget, rules.daily_budget, spent)
    if hasattr(scheduler, "allow"):
        await scheduler.may_go_on()
        await scheduler.allow(budget)


def _tell(spider: TileSpider, site: Site) -> None:
    for name, decision in spider.harvesting.walks.decisions.layers.items():
        way = "what lies below unchanged tiles is skipped" if decision.is_pruned else "every tile is asked"
        spider.logger.info("layer %s: %s: %s", name, way, decision.reason)
    spider.logger.info(
        "%s the harvest of map '%s' for %s: %s",
        "continuing" if spider.harvesting.continued else "beginning",
        spider.harvesting.description.name,
        spider.harvesting.day,
        ", ".join(f"layer {layer.name} of depth {layer.depth}" for layer in site.layers),
    )
