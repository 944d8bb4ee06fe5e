"""The settings of Scrapy that the spiders of tiles need. No other spider is touched by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.request import getproxies

from scrapy.settings import SETTINGS_PRIORITIES

from tileharvest.spiders.log import write_printable_lines
from tileharvest.tiles.images import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

_UNUSED: Final[Mapping[str, tuple[str, ...]]] = {
    # No tile needs these middlewares of Scrapy's, or the download handler does their work. Each would cost a
    # call for each request.
    "DOWNLOADER_MIDDLEWARES_BASE": (
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware",
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware",
        "scrapy.downloadermiddlewares.downloadtimeout.DownloadTimeoutMiddleware",
        "scrapy.downloadermiddlewares.defaultheaders.DefaultHeadersMiddleware",
        "scrapy.downloadermiddlewares.useragent.UserAgentMiddleware",
        "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware",
        "scrapy.downloadermiddlewares.retry.RetryMiddleware",
        "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware",
        "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware",
        "scrapy.downloadermiddlewares.redirect.RedirectMiddleware",
        "scrapy.downloadermiddlewares.cookies.CookiesMiddleware",
        "scrapy.downloadermiddlewares.stats.DownloaderStats",
        "scrapy.downloadermiddlewares.httpcache.HttpCacheMiddleware",
    ),
    # The diff middleware judges every answer itself, 404 and 304 included.
    "SPIDER_MIDDLEWARES_BASE": (
        "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware",
        "scrapy.spidermiddlewares.referer.RefererMiddleware",
        "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware",
        "scrapy.spidermiddlewares.depth.DepthMiddleware",
        "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware",
        "scrapy.spidermiddlewares.start.StartSpiderMiddleware",
    ),
    # These two count every answer and item through signals, which costs about 8 %. The harvest has its own
    # counts.
    "EXTENSIONS_BASE": (
        "scrapy.extensions.corestats.CoreStats",
        "scrapy.extensions.logstats.LogStats",
    ),
}
"""Components of Scrapy's that no tile needs, by the setting that has them.

Scrapy's manual says to switch a component off by None in the project's list, and to leave these settings
alone. But Scrapy loads whatever a list of the project's names, None or not: aiohttp and others, 12 MB with
what is switched below. What the manual guards against does not come about. Only this crawler's copy of the
settings is changed, with the priority of an add-on. A project that names one of these in its own list has it
at the place that it says, and a project that sets such a setting itself has its own value."""

_SWITCHED: Final[Mapping[str, str]] = {
    "REMOTE_CONTROL_ENABLED": "scrapy.extensions.remote_control.RemoteControl",
    "TELNETCONSOLE_ENABLED": "scrapy.extensions.telnet.TelnetConsole",
}
"""By setting: an extension that is loaded only if a project has switched the setting on. Both run any code
that they are sent, and Scrapy's default is on. An add-on of Scrapy's, which comes later, must name the
extension, too."""

_COMPONENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "DOWNLOADER_MIDDLEWARES": {
        # These are ours, in the order from the engine to the network. An answer passes them from the last to
        # the first.
        "tileharvest.middlewares.diff.DiffMiddleware": 540,
        "tileharvest.middlewares.retry.PatientRetryMiddleware": 550,
        "tileharvest.middlewares.outage.OutageMiddleware": 560,
        "tileharvest.middlewares.redirect.TileRedirectMiddleware": 600,
        "tileharvest.middlewares.traffic.TrafficMiddleware": 990,
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
"""Components that are added to those of the project, which may switch off or reorder any of them. The shares
of speed in this file are of the time for one unchanged tile."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    "REQUEST_FINGERPRINTER_CLASS": "tileharvest.scheduler.fingerprint.SegmentFingerprinter",
    # Cache busters, timestamps and JSONP callbacks do not make it another tile.
    "DEDUP_IGNORE_QUERY": ["c", "_", "t", "ts", "callback", "jsonp"],
    # The attempts after the first one, so five in all, before a tile counts as failed.
    "RETRY_TIMES": 4,
    # No compression is asked for: images do not compress, and a server that compresses them anyway weakens or
    # drops its ETag.
    "DEFAULT_REQUEST_HEADERS": {"Accept-Encoding": "identity"},
    # Seconds for a whole answer. One that is silent, or too slow, is given up before: the settings
    # DOWNLOAD_LOW_SPEED_TIME and DOWNLOAD_LOW_SPEED_LIMIT say when. In this time 16 MB come at 0.7 Mbit/s.
    "DOWNLOAD_TIMEOUT": 180,
    # Bytes, unless a map says it by max_tile_bytes. A tile of 384 x 384 pixels has at most 0.6 MB.
    "DOWNLOAD_MAXSIZE": MOST_BYTES,
    "DOWNLOAD_WARNSIZE": 0,
    "REDIRECT_MAX_TIMES": 5,
    # The middleware runs only where the environment names a proxy.
    "HTTPPROXY_ENABLED": bool(getproxies()),
    # A tile is the same for everyone.
    "COOKIES_ENABLED": False,
    # No callback of ours yields more than one item, and Scrapy's machinery for several is costly: the value 1
    # saves about a third. `process_in_turn` also asks for it.
    "CONCURRENT_ITEMS": 1,
    # Scrapy would read the source of the callback for each answer, unless another request with it is there at
    # that moment: a third of the time of a site that is asked slowly.
    "WARN_ON_GENERATOR_RETURN_VALUE": False,
    # This formatter builds no string for a tile unless the level is DEBUG.
    "LOG_FORMATTER": "tileharvest.spiders.log.QuietLogFormatter",
}
"""Settings that hold unless the project sets them."""


def suit_tiles(settings: BaseSettings) -> None:
    """Changes the settings so that Scrapy serves tiles. Values that the project, the spider's class or the
    command line has set stay.

    Call it from `update_settings`, after that of the class above.
    """
    write_printable_lines()
    for name, components in _COMPONENTS.items():
        # Above what is there: a runner that is handed a crawler sets its own settings in it once more.
        priority = max(SETTINGS_PRIORITIES["spider"], (settings.getpriority(name) or 0) + 1)
        settings.set(name, {**components, **settings.getdict(name)}, priority=priority)
    off = tuple(
        extension
        for name, extension in _SWITCHED.items()
        if not (settings.getpriority(name) and settings.getbool(name))
    )
    for name, unused in _UNUSED.items():
        without = {*unused, *off}
        kept = {path: place for path, place in settings.getdict(name).items() if path not in without}
        settings.set(name, kept, priority="addon")
    for name, value in _DEFAULTS.items():
        settings.set(name, value, priority="addon")
