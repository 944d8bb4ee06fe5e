"""The settings of Scrapy that the spiders of tiles need. No other spider is touched by them."""

from __future__ import annotations

import gc
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from scrapy.settings import SETTINGS_PRIORITIES

from tileharvest.tiles.images import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

    from tileharvest.politeness.rules import Rules

_COMPONENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "DOWNLOADER_MIDDLEWARES": {
        "tileharvest.middlewares.diff.DiffMiddleware": 540,
        # The map's robots.txt is read before anything else, and a tile that has failed is asked again as part
        # of a block.
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
        # Where a map's tiles are is known, and the download handler judges redirects.
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
    },
    "DOWNLOAD_HANDLERS": {
        # libcurl takes a third of what aiohttp takes, which takes less than Twisted.
        "http": "tileharvest.spiders.download.TileDownloadHandler",
        "https": "tileharvest.spiders.download.TileDownloadHandler",
    },
    "EXTENSIONS": {
        "tileharvest.extensions.notice.Notice": 510,
    },
    "ITEM_PIPELINES": {"tileharvest.pipelines.HistoryPipeline": 300},
}
"""Components that are added to those of the project, which may switch off or reorder any of them."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    "REQUEST_FINGERPRINTER_CLASS": "tileharvest.spiders.blocks.BlockFingerprinter",
    # Cache busters, timestamps and JSONP callbacks do not make it another tile.
    "DEDUP_IGNORE_QUERY": ["c", "_", "t", "ts", "callback", "jsonp"],
    # The attempts after the first one, so five in all, before a tile counts as failed.
    "RETRY_TIMES": 4,
    # No compression is asked for: images do not compress, and a server that compresses them anyway weakens or
    # drops its ETag. What a server compresses unasked is not unpacked.
    "DEFAULT_REQUEST_HEADERS": {"Accept-Encoding": "identity"},
    "COMPRESSION_ENABLED": False,
    # Seconds for a whole answer. One that is silent, or too slow, is given up before: the settings
    # DOWNLOAD_LOW_SPEED_TIME and DOWNLOAD_LOW_SPEED_LIMIT say when. In this time 16 MB come at 0.7 Mbit/s.
    "DOWNLOAD_TIMEOUT": 180,
    # Bytes, unless a map says it by max_tile_bytes. A tile of 384 x 384 pixels has at most 0.6 MB.
    "DOWNLOAD_MAXSIZE": MOST_BYTES,
    "DOWNLOAD_WARNSIZE": 0,
    "REDIRECT_MAX_TIMES": 5,
    # A tile is the same for everyone.
    "COOKIES_ENABLED": False,
    # A callback of ours yields one item. For each response Scrapy makes as many tasks as this says.
    "CONCURRENT_ITEMS": 1,
    # The download handler follows redirects, within the limits of the site that they lead to.
    "REDIRECT_ENABLED": False,
    "METAREFRESH_ENABLED": False,
    # A site need not know where we come from.
    "REFERER_ENABLED": False,
    # Both run any code that they are sent.
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
}
"""Settings that hold unless the project sets them."""

_GC_THRESHOLD: Final = 20_000
"""New objects after which the garbage collector runs. With Python's 700 it would run all the time beside 32
requests on the way, and take 40 % of a harvest's time. The larger number costs some megabytes."""


def suit_tiles(settings: BaseSettings) -> None:
    """Changes the settings so that Scrapy serves tiles. Values that the project, the spider's class or the
    command line has set stay.

    Call it from `update_settings`, after that of the class above.
    """
    for name, components in _COMPONENTS.items():
        # Above what is there: a runner that is handed a crawler sets its own settings in it once more.
        priority = max(SETTINGS_PRIORITIES["spider"], (settings.getpriority(name) or 0) + 1)
        settings.set(name, {**components, **settings.getdict(name)}, priority=priority)
    for name, value in _DEFAULTS.items():
        settings.set(name, value, priority="addon")


def behave(settings: BaseSettings, rules: Rules) -> None:
    """Sets Scrapy's own settings by the rules of the map's owner. The download handler keeps to the others.

    Scrapy counts blocks. As many as tiles may be on the way keep the connections busy however few tiles each
    block has, and two more wait for their turn."""
    for name in ("CONCURRENT_REQUESTS", "CONCURRENT_REQUESTS_PER_DOMAIN"):
        # What the project or the command line says is not raised.
        is_said = (settings.getpriority(name) or 0) >= SETTINGS_PRIORITIES["project"]
        most = settings.getint(name) if is_said else 0
        blocks = rules.concurrency + 2
        settings.set(name, min(most, blocks) if most else blocks, priority="spider")
    settings.set("AUTOTHROTTLE_ENABLED", rules.autothrottle, priority="spider")
    # Not weaker: the contact is added to what the command line says.
    settings.set("USER_AGENT", rules.user_agents[0], priority="cmdline")
    settings.set("USER_AGENTS", rules.user_agents, priority="spider")


@cache
def relax_garbage_collection() -> None:
    """Lets the collector of reference cycles look less often, and never again at what was imported. Only the
    first call in a process does this: a later one would keep what earlier crawls have left for ever."""
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
