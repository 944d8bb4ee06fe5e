"""Scrapy's settings for this project, and our own.

Each room that needs settings of ours reads them in its own `settings.py`. Scrapy's settings that its defaults
already have right are not repeated here.
"""

import os
from urllib.request import getproxies

BOT_NAME = "tileharvest"
SPIDER_MODULES = ["tileharvest.spiders"]
NEWSPIDER_MODULE = "tileharvest.spiders"
COMMANDS_MODULE = "tileharvest.commands"

# --- Ours: where things are ------------------------------------------------------------------------

TILEHARVEST_MAPS = os.environ.get("TILEHARVEST_MAPS", "maps.toml")
"""The file that describes the maps; a relative path starts at the project's folder."""

TILEHARVEST_DATA = os.environ.get("TILEHARVEST_DATA", "data")
"""The data folder, with the history and the store; a relative path starts at the project's folder."""

DATABASE_URL = os.environ.get("DATABASE_URL", "")
"""SQLAlchemy's address of the history; empty: SQLite's `history.sqlite` in the data folder."""

TILE_STORE = os.environ.get("TILE_STORE", "")
"""Where the images are: `s3://bucket/prefix`, with credentials from the environment as Amazon's own tools
take them; empty: `tiles/` in the data folder."""

# --- Ours: watching --------------------------------------------------------------------------------

PROMETHEUS_PORT = os.environ.get("PROMETHEUS_PORT", "")
"""Where a crawl serves its queue's numbers to Prometheus while it runs; empty or 0: nowhere."""

PROMETHEUS_HOST = os.environ.get("PROMETHEUS_HOST", "127.0.0.1")

# --- Ours: when a request is made ------------------------------------------------------------------

SCHEDULER = "tileharvest.scheduler.scheduler.Scheduler"

SCHEDULER_QUEUE = ""
"""Where requests wait: `sqlite`, a file per map in the data folder; `redis`, which any number of workers
share; or `memory`, gone with the process. Empty: Redis if a setting below names one, else SQLite."""

REDIS_URL = os.environ.get("REDIS_URL", "")
"""Such as `redis://user:password@redis.example.net:6379/0`; `rediss://` for TLS. These settings are those of
scrapy-redis: what the URL says goes before all others."""

REDIS_HOST = os.environ.get("REDIS_HOST", "")
REDIS_PORT = os.environ.get("REDIS_PORT", "")
REDIS_ENCODING = os.environ.get("REDIS_ENCODING", "")
REDIS_PARAMS: dict[str, object] = {}
"""Anything else that redis-py's clients take, such as `{"socket_timeout": 10}`; `redis_cls` may name
`redis.asyncio.RedisCluster`."""

SEGMENT = "day"
"""The slice of time in which a request is made once: `day`, `hour`, `week`, an interval such as `every:3d`,
or `run`, each start its own. Days are those of the map's time zone."""

SEGMENT_RESOLVER = None
"""The path of a class of yours in place of SEGMENT, made with (zone, started); see queue/segments.py."""

SEGMENTS_KEPT = 2
"""Segments of which is remembered what was seen; the present one is one of them."""

REQUEST_FINGERPRINTER_CLASS = "tileharvest.scheduler.fingerprint.SegmentFingerprinter"

DEDUP_IGNORE_QUERY = ["c", "_", "t", "ts", "callback", "jsonp"]
"""Keys of an address that do not make it another request: cache busters, timestamps, JSONP callbacks."""

SEEN_EXPECTED = 100_000
"""Requests for which the filter of seen ones is made at least: 0.4 MB. It is made for what the last segment
had where that was more, and grows, with a warning, where that is not enough."""

SEEN_ERROR_RATE = 1e-6
"""How often the filter takes a new request for a seen one; then the queue looks, so that none is lost."""

SEEN_ERROR_RATE_SHARED = 1e-9
"""The same of the filter in Redis: 5.4 bytes per request. Before a harvest is complete, whatever it took for
seen is looked up in the history."""

MAX_ATTEMPTS = 5
"""How often a request is offered before it goes to the failure list: because its lease expired, or its
process ended."""

LEASE_SECONDS = 300.0
"""How long a request may be under way unheard of; a living process extends its leases."""

LEASE_AHEAD = 512
"""Requests fetched from the queue before they are asked for: so many share a transaction. With 128 a harvest
needs 8 % more time. A kill costs each of them an attempt."""

LEASE_AHEAD_SHARED = 4
"""The same from a queue that several workers share, for each request that may be on the way: what one has
leased ahead the others cannot have."""

LINGER_SHARED = 0.25
"""Seconds that what is found may wait for more before the history is told, and what is finished before Redis
is; for workers that share a queue. Nobody waits for it but the end, and each of several workers has fewer
tiles to tell of at once than one alone: with 0.05 four of them need a tenth of a core more."""

MINUS_SHARE = 16
"""One of so many offers goes to the minus lane first, so that it does not starve; 0: none."""

CLOSE_WHEN_WAITING = 600
"""Seconds: a spider with nothing left but requests for later stays if the next is due within them, as
pauses before a repeat are, and else closes and says when to run again. True: it closes, False: it stays."""

# --- Ours: patience --------------------------------------------------------------------------------

RETRY_TIMES = 4
"""Attempts after the first, so five in all, before a tile counts as failed."""

RETRY_PAUSE = 1.0
"""Seconds before the second attempt; each further pause is twice as long: 1, 2, 4, 8."""

RETRY_AFTER_LONGEST = 600.0
"""Seconds that a server may ask us to stay away (`Retry-After`). Where it asks for more, its host is left
alone for so long, and the tile has failed and the next harvest asks again: a harvest that sleeps for hours
helps nobody."""

PROGRESS_INTERVAL = 60.0
"""Seconds between two lines of progress where the output is no terminal."""

# --- Ours: what a guest owes its host; maps.toml says it for one map, the command line for one run --

DELAY: float | list[float] = 0
"""Seconds from the start of one request to that of the next, of all workers of a map: 0.5, or [0.2, 0.8] for
another one each time. Scrapy's DOWNLOAD_DELAY works besides, for each process by itself."""

HOST_REQUESTS_PER_SECOND = 0
"""Of all maps of a host together; 0: no limit but those of its maps."""

HOST_DELAY: float | list[float] = 0
"""The same as DELAY is for a map: 0.5, or [0.2, 0.8] for another one each time. Of both the slower counts."""

HOST_CONCURRENCY = 0
"""Requests on the way at the same time, of all maps of a host together; 0: as maps.toml says."""

STORE_DELAY: float | list[float] = 0
"""Seconds from the storing of one image to that of the next, in each process; as DELAY."""

QUIET_HOURS: list[str] = []
"""In which nothing is asked, such as ["18:00-23:00"], in the map's time zone."""

QUIET_RATE = ""
"""At which it is asked in the quiet hours nevertheless, such as "10/min"."""

BUDGET: dict[str, object] = {}
"""What one run may spend, such as {"requests": 20000, "bytes": "500 MB", "seconds": 3600}."""

DAILY_BUDGET: dict[str, object] = {}
"""The same for all runs of a day of one map."""

MIN_FREE = ""
"""How much must stay free on the disk of the data folder, such as "2 GB"."""

CONTACT = os.environ.get("TILEHARVEST_CONTACT", "")
"""A mail address or a page, by which a site's owner reaches who harvests; becomes part of the User-Agent."""

USER_AGENTS: list[str] = []
"""To be used in place of USER_AGENT, one at random for each request."""

HOST_DOWN_AFTER = 10
"""Failures in a row from a host, after which it is only probed until it answers again."""

HOST_DOWN_PAUSE = 1.0
"""Seconds before the first probe; each further pause is twice as long."""

HOST_DOWN_LONGEST_PAUSE = 60.0
"""Seconds between two probes at most."""

HOST_DOWN_PATIENCE = 900.0
"""Seconds for which a host may be down before the harvest ends, to be continued another time."""

# --- Ours: messages --------------------------------------------------------------------------------

NOTIFY: list[str] = []
"""Where messages about a harvest go: Apprise's addresses; `${NAME}` stands for an environment variable."""

NOTIFY_ON = ["change", "failure"]
"""When: "change", "failure" or "always"."""

VIEWER_URL = os.environ.get("TILEHARVEST_VIEWER", "")
"""The address of the viewer, for links in messages."""

# --- Scrapy's: what a guest owes its host ----------------------------------------------------------

USER_AGENT = "TileHarvest/0.1"
"""Names the program, so that a site's owner can find out what visits; CONTACT is added to it."""

ROBOTSTXT_OBEY = True
"""By our own middleware, which also keeps to its Crawl-delay."""

DEFAULT_REQUEST_HEADERS = {"Accept-Encoding": "identity"}
"""Images do not compress, and a server that compresses anyway weakens or drops its ETag."""

DOWNLOAD_TIMEOUT = 30
"""Seconds for one answer: a tile is some tens of kilobytes."""

DOWNLOAD_MAXSIZE = 16 * 1024 * 1024
"""Bytes: a tile of 384 x 384 pixels has at most 0.6 MB; an answer far above is no tile."""

DOWNLOAD_WARNSIZE = 0
REDIRECT_MAX_TIMES = 5
HTTPPROXY_ENABLED = bool(getproxies())
"""Only where the environment names a proxy."""

COOKIES_ENABLED = False
"""A tile is the same for everyone."""

# --- Scrapy's: speed. The shares are of the time for one unchanged tile, see docs/benchmarks.md -----

ASYNCIO_EVENT_LOOP = "uvloop.Loop"
"""About 15 %."""

DOWNLOAD_HANDLERS = {
    "http": "tileharvest.spiders.download.TileDownloadHandler",
    "https": "tileharvest.spiders.download.TileDownloadHandler",
}
"""About 15 %: aiohttp in place of Twisted."""

GC_THRESHOLD = 20_000
"""About 40 %. Objects made, and not freed, until Python looks for reference cycles; its default is 700,
fewer than one moment of an asynchronous program with 32 requests on the way has, so that it would look
all the time. Costs some megabytes of memory."""

CONCURRENT_ITEMS = 1
"""About a third: no callback of ours yields more than one item, and the machinery for several is dear."""

LOG_FORMATTER = "tileharvest.spiders.log.QuietLogFormatter"
"""No string is built for a tile unless the level is DEBUG."""

LOG_LEVEL = "INFO"
LOG_VERSIONS: list[str] = []

EXTENSIONS = {
    "tileharvest.extensions.prometheus.Prometheus": 500,
    "tileharvest.extensions.notice.Notice": 510,
    # They count every answer and item through signals: about 8 %. The harvest counts for itself.
    "scrapy.extensions.corestats.CoreStats": None,
    "scrapy.extensions.logstats.LogStats": None,
}

DOWNLOADER_MIDDLEWARES = {
    # Scrapy's that no tile needs, or whose work the download handler does: each costs a call per request.
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
    "scrapy.downloadermiddlewares.downloadtimeout.DownloadTimeoutMiddleware": None,
    "scrapy.downloadermiddlewares.defaultheaders.DefaultHeadersMiddleware": None,
    "scrapy.downloadermiddlewares.useragent.UserAgentMiddleware": None,
    "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
    "scrapy.downloadermiddlewares.stats.DownloaderStats": None,
    "scrapy.downloadermiddlewares.httpcache.HttpCacheMiddleware": None,
    # Ours, from the engine to the network: an answer passes them from the last to the first.
    "tileharvest.middlewares.robots.RobotsMiddleware": 530,
    "tileharvest.middlewares.diff.DiffMiddleware": 540,
    "tileharvest.middlewares.retry.PatientRetryMiddleware": 550,
    "tileharvest.middlewares.outage.OutageMiddleware": 560,
    "tileharvest.middlewares.aside.AsideMiddleware": 570,
    "tileharvest.middlewares.redirect.TileRedirectMiddleware": 600,
    "tileharvest.middlewares.traffic.TrafficMiddleware": 990,
}

SPIDER_MIDDLEWARES = {
    # The diff middleware judges every answer itself, 404 and 304 included.
    "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None,
    "scrapy.spidermiddlewares.referer.RefererMiddleware": None,
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
    "scrapy.spidermiddlewares.start.StartSpiderMiddleware": None,
}

ITEM_PIPELINES = {"tileharvest.pipelines.HistoryPipeline": 300}

# --- Scrapy's: closed doors ------------------------------------------------------------------------

REMOTE_CONTROL_ENABLED = False
"""On by default since Scrapy 2.19, and runs code that it is sent."""

TELNETCONSOLE_ENABLED = False
"""The same."""
