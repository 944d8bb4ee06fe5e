"""The settings of this project: our own, and Scrapy's where its defaults do not fit.

Each room that needs settings of ours reads them in its own `settings.py`. A value here is also the default
where another project does not have the setting. What only tiles need is in `spiders/settings.py`.
"""

import os

BOT_NAME = "tileharvest"
SPIDER_MODULES = ["tileharvest.spiders"]
NEWSPIDER_MODULE = "tileharvest.spiders"
COMMANDS_MODULE = "tileharvest.commands"

# --- Ours: where things are ------------------------------------------------------------------------

TILEHARVEST_MAPS = os.environ.get("TILEHARVEST_MAPS", "maps.toml")
"""The file that describes the maps. A relative path starts at the folder of `scrapy.cfg`; where neither the
present folder nor one above has that file, it starts at the present folder."""

TILEHARVEST_DATA = os.environ.get("TILEHARVEST_DATA", "data")
"""The data folder, with the history and the store. A relative path starts as that of the maps does."""

DATABASE_URL = os.environ.get("DATABASE_URL", "")
"""SQLAlchemy's address of the history. Empty means SQLite's `history.sqlite` in the data folder."""

TILE_STORE = os.environ.get("TILE_STORE", "")
"""The place of the images: `s3://bucket/prefix`, with credentials from the environment as Amazon's own tools
take them. Empty means `tiles/` in the data folder."""

# --- Ours: watching --------------------------------------------------------------------------------

PROMETHEUS_PORT = os.environ.get("PROMETHEUS_PORT", "")
"""The port on which a crawl serves its queue's numbers to Prometheus while it runs. Empty or 0 means none."""

PROMETHEUS_HOST = os.environ.get("PROMETHEUS_HOST", "127.0.0.1")

# --- Ours: when a request is made ------------------------------------------------------------------

SCHEDULER = "tileharvest.scheduler.Scheduler"

SCHEDULER_QUEUE = ""
"""The place where requests wait: `sqlite` is a file per map or spider in the data folder; `redis` is shared
by any number of workers; `memory` is gone with the process. Empty means Redis if a setting below names one,
and SQLite otherwise."""

REDIS_URL = os.environ.get("REDIS_URL", "")
"""An address such as `redis://user:password@redis.example.net:6379/0`; `rediss://` means TLS. The settings of
Redis are those of scrapy-redis, and what this address says goes before all others."""

REDIS_HOST = os.environ.get("REDIS_HOST", "")
REDIS_PORT = os.environ.get("REDIS_PORT", "")
REDIS_ENCODING = os.environ.get("REDIS_ENCODING", "utf-8")
REDIS_PARAMS: dict[str, object] = {}
"""Anything else that redis-py's clients take, such as `{"socket_timeout": 10}`."""

SEGMENT = "day"
"""The slice of time in which a request is made once: `day`, `hour`, `week`, or an interval such as
`every:3d`. With `run` each start is a segment of its own. Days are those of the map's time zone. For a map
that has `every` in maps.toml that says it instead."""

SEGMENT_RESOLVER = None
"""The import path of your own class, which takes the place of SEGMENT. It is called with (zone, started): see
tileharvest/queue/segments.py."""

SEGMENTS_KEPT = 2
"""The number of segments whose seen requests are remembered, the present one included."""

SEEN_EXPECTED = 100_000
"""The least number of requests for which the seen filter is made: 0.4 MB. Where the last segment had more, it
is made for those. Where that is not enough it grows, with a warning. In Redis the record of what was seen is
laid out for as many in a map's first segment, and later for a quarter more than the last one had."""

SEEN_ERROR_RATE = 1e-6
"""The share of new requests that the filter takes for seen ones. The queue then looks into its exact record,
so that none is lost."""

MAX_ATTEMPTS = 5
"""How often a request is offered before it goes to the failure list. It is offered again when its lease
expires or its process ends."""

LEASE_SECONDS = 300.0
"""Seconds after which a lease expires. A living process extends its leases. Those of a queue in Redis last
for 30 at most, so that others soon have what a killed worker had."""

LEASE_AHEAD = 1024
"""The requests that are leased ahead of their turn at most, so that many share a transaction or a call to
Redis. A site that answers them within half a second gets so many; at a slower one they are fewer, down to 16,
because other workers cannot have what one worker has leased. With 128 a harvest needs 8 % more time. A kill
costs each of them an attempt."""

BLOCK_SIZE = 64
"""The tiles of a host that are at most put together into one request of Scrapy's. They are asked one after
the other. With 1 each tile is a request."""

LINGER_SHARED = 0.5
"""Seconds that a worker of a shared queue may collect results before it tells the history, and finished
requests before it tells Redis. Only the end of a harvest has to wait for that. Each of several workers has
fewer tiles to tell of at once than one worker alone: with 0.05, four of them need a tenth of a core more. A
worker with 640 tiles a second asks Redis once for 280 of them, with 0.25 once for 160."""

MINUS_SHARE = 16
"""One of so many offers goes to the minus lane first, so that this lane does not starve. 0 means none."""

CLOSE_WHEN_WAITING = 600
"""Seconds for which a spider waits whose requests are all for later, such as a repeat after a pause. When the
next one is due later than that, the spider closes and says when to run again. True means that it always
closes, False that it always stays."""

MAPS_AT_ONCE = 16
"""How many maps one process harvests side by side. A map that waits for a person, for the end of quiet hours
or for its host leaves its place to another. With 1 they come strictly one after the other."""

# --- Ours: patience --------------------------------------------------------------------------------

RETRY_PAUSE = 1.0
"""Seconds before the second attempt; each further pause is twice as long: 1, 2, 4, 8."""

RETRY_AFTER_LONGEST = 600.0
"""The most seconds for which a server's `Retry-After` is obeyed. Where it asks for more, its host is left
alone for this long, the tile has failed, and the next harvest asks for it again: a harvest that sleeps for
hours helps nobody."""

DOWNLOAD_LOW_SPEED_LIMIT = 1000
"""Bytes a second that an answer must bring at least. 0 means that it may be as slow as it likes."""

DOWNLOAD_LOW_SPEED_TIME = 30
"""Seconds for which an answer may be slower than that, or silent, before it is given up; and after which a
connection that was not made is.
Scrapy's DOWNLOAD_TIMEOUT bounds a whole answer, however it comes; with 0 here, nothing else does."""

PROGRESS_INTERVAL = 60.0
"""Seconds between two lines of progress where the output is no terminal."""

# --- Ours: politeness. maps.toml says it for one map, the command line for one run ------------------

DELAY: float | list[float] = 0
"""Seconds from the start of one request to the start of the next, of all workers of a map: 0.5, or [0.2, 0.8]
for a gap that is drawn anew each time. Scrapy's DOWNLOAD_DELAY works besides, for each process by itself."""

HOST_REQUESTS_PER_SECOND = 0
"""The limit of all maps of a host together. 0 means no limit but those of its maps."""

HOST_DELAY: float | list[float] = 0
"""The same for all maps of a host together: 0.5, or [0.2, 0.8]. Of this and DELAY the slower one counts."""

HOST_CONCURRENCY = 0
"""The most requests that all maps of a host together may have on the way at the same time. 0 means: as
maps.toml says."""

STORE_DELAY: float | list[float] = 0
"""Seconds that each process leaves between storing one image and storing the next, in the form of DELAY."""

QUIET_HOURS: list[str] = []
"""Hours of the map's time zone in which nothing is asked, such as ["18:00-23:00"]."""

QUIET_RATE = ""
"""The rate at which a site is asked in the quiet hours all the same, such as "10/min"."""

BUDGET: dict[str, object] = {}
"""What one run may spend, such as {"requests": 20000, "bytes": "500 MB", "seconds": 3600}."""

DAILY_BUDGET: dict[str, object] = {}
"""What all runs of one map may spend in a day, in the form of BUDGET."""

MIN_FREE = ""
"""The room that must stay free on the disk of the data folder, such as "2 GB"."""

CONTACT = os.environ.get("TILEHARVEST_CONTACT", "")
"""A mail address or a page that tells a site's owner who harvests. It becomes part of the User-Agent."""

USER_AGENTS: list[str] = []
"""These replace USER_AGENT. Each request takes one of them at random."""

HOST_DOWN_AFTER = 10
"""The failures in a row after which a host is only probed until it answers again."""

HOST_DOWN_PAUSE = 1.0
"""Seconds before the first probe; each further pause is twice as long."""

HOST_DOWN_LONGEST_PAUSE = 60.0
"""The most seconds between two probes."""

HOST_DOWN_PATIENCE = 900.0
"""Seconds for which a host may be down before the harvest ends. It can be continued another time."""

# --- Ours: messages --------------------------------------------------------------------------------

NOTIFY: list[str] = []
"""The addresses, in Apprise's form, that messages about a harvest go to. `${NAME}` stands for an environment
variable."""

NOTIFY_ON = ["change", "failure"]
"""The occasions of a message: "change", "failure" or "always"."""

VIEWER_URL = os.environ.get("TILEHARVEST_VIEWER", "")
"""The address of the viewer, for links in messages."""

# --- Scrapy's: politeness --------------------------------------------------------------------------

USER_AGENT = "TileHarvest/0.1"
"""Names the program, so that a site's owner can find out who visits. CONTACT is added to it."""

ROBOTSTXT_OBEY = True
"""For tiles our own middleware obeys robots.txt, and also keeps to its Crawl-delay."""

# --- Scrapy's: speed. The shares are of the time for one unchanged tile, see docs/benchmarks.md -----

ASYNCIO_EVENT_LOOP = "uvloop.Loop"
"""uvloop saves about 15 %."""

GC_THRESHOLD = 20_000
"""The number of new objects, less those that were freed, after which Python looks for reference cycles while
tiles are harvested.

It saves about 40 %. Python's default is 700. An asynchronous program with 32 requests on the way has more
than that at any moment, so Python would look all the time. The larger number costs some megabytes of
memory."""

LOG_LEVEL = "INFO"
LOG_VERSIONS: list[str] = []

EXTENSIONS = {"tileharvest.extensions.prometheus.Prometheus": 500}

# --- Scrapy's: closed doors ------------------------------------------------------------------------

REMOTE_CONTROL_ENABLED = False
"""The remote control is on by default since Scrapy 2.19, and runs any code that it is sent."""

TELNETCONSOLE_ENABLED = False
"""The telnet console, too, runs any code that it is sent."""
