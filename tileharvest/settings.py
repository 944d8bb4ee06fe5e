"""The settings of this project: our own, and Scrapy's where its defaults do not fit.

Each room reads the settings that it needs in its own `settings.py`. The values here are also the defaults in
another project that does not have the setting. Settings that only tiles need are in `spiders/settings.py`.
"""

import os

BOT_NAME = "tileharvest"
SPIDER_MODULES = ["tileharvest.spiders"]
NEWSPIDER_MODULE = "tileharvest.spiders"
COMMANDS_MODULE = "tileharvest.commands"

# --- Ours: where things are ------------------------------------------------------------------------

# A relative path starts at the folder of `scrapy.cfg`. If neither the present folder nor one above it has
# that file, the path starts at the present folder.
TILEHARVEST_MAPS = os.environ.get("TILEHARVEST_MAPS", "maps.toml")
TILEHARVEST_DATA = os.environ.get("TILEHARVEST_DATA", "data")
"""The data folder, with the history and the store."""

DATABASE_URL = os.environ.get("DATABASE_URL", "")
"""SQLAlchemy's address of the history. Empty means SQLite's `history.sqlite` in the data folder."""

TILE_STORE = os.environ.get("TILE_STORE", "")
"""The place of the images: `s3://bucket/prefix`, with credentials from the environment as Amazon's own tools
take them. Empty means `tiles/` in the data folder."""

# --- Ours: when a request is made ------------------------------------------------------------------

SCHEDULER = "tileharvest.scheduler.Scheduler"
SPIDER_MIDDLEWARES = {"tileharvest.scheduler.LeaseMiddleware": 10}

SCHEDULER_QUEUE = ""
"""The place where requests wait. `sqlite` is a file for each map or spider in the data folder. `redis` can be
shared by any number of workers. `memory` is lost with the process. Empty means Redis if a setting below names
one, and SQLite otherwise."""

REDIS_URL = os.environ.get("REDIS_URL", "")
"""An address such as `redis://user:password@redis.example.net:6379/0`. `rediss://` means TLS. The settings of
Redis are those of scrapy-redis. This address overrides all others."""

REDIS_HOST = os.environ.get("REDIS_HOST", "")
REDIS_PORT = os.environ.get("REDIS_PORT", "")
REDIS_PARAMS: dict[str, object] = {}
"""Other arguments of redis-py's clients, such as `{"socket_timeout": 10}`."""

QUEUE_NAME = "{bot}:{spider}"
"""The name of the queue of a spider that harvests no map. A spider with arguments gets a hash of them behind
it. Crawls of one name share a queue: in a file one at a time, in Redis any number. Maps have queues of their
own."""

SEGMENT = "day"
"""The slice of time in which a request is made once: `day`, `hour`, `week`, or an interval such as
`every:3d`. With `run` each start is a segment of its own. Days are those of the map's time zone. A map's
`every` in maps.toml overrides this setting."""

SEGMENT_RESOLVER = None
"""The import path of a class of yours that replaces SEGMENT. It is called with (zone, started). See
tileharvest/queue/segments.py."""

MAX_ATTEMPTS = 5
"""How often the process of a request may end while the request is on the way. Then the request is offered
last of all, and after as many times again it goes to the failure list."""

LEASE_SECONDS = 30.0
"""Seconds of silence after which a worker that shares a queue in Redis is gone: then other workers get its
requests. At most 30. A living process is never silent for so long."""

CLOSE_WHEN_WAITING = 600.0
"""Seconds for which a spider waits if all of its requests are due later, such as a repeat after a pause. If
the next request is due even later, the spider closes and says when to run it again. With "inf" it always
stays."""

# --- Ours: patience --------------------------------------------------------------------------------

RETRY_PAUSE = 1.0
"""Seconds before the second attempt. Each further pause is twice as long: 1, 2, 4, 8."""

RETRY_AFTER_LONGEST = 600.0
"""The most seconds for which a server's `Retry-After` is obeyed. If the server asks for more, its host rests
for this long and the tile fails. The next harvest asks for it again."""

DOWNLOAD_LOW_SPEED_LIMIT = 1000
"""The least bytes per second of an answer. 0 means that an answer may be as slow as it likes."""

DOWNLOAD_LOW_SPEED_TIME = 30
"""Seconds for which an answer may be slower than that, or silent. The time to connect has the same limit.
With 0 only Scrapy's DOWNLOAD_TIMEOUT, which is for a whole answer, limits it."""

# --- Ours: politeness. maps.toml says it for one map, the command line for one run ------------------

DELAY: float | list[float] = 0
"""Seconds from the start of one request to the start of the next, of all workers of a map: 0.5, or [0.2, 0.8]
for gaps that are drawn between the two. Scrapy's DOWNLOAD_DELAY also works, for each process by itself, and
between blocks of tiles."""
HOST_DELAY: float | list[float] = 0
"""The DELAY of all maps of a host together. Of both, the longer one counts."""
HOST_CONCURRENCY = 0
"""The most requests that all maps of a host together may have on the way. 0 means that maps.toml decides."""

QUIET_HOURS: list[str] = []
"""Hours of the map's time zone in which nothing is asked, such as ["18:00-23:00"]."""
QUIET_RATE = ""
"""The rate at which a site is asked even in the quiet hours, such as "10/min". Empty means not at all."""

BUDGET: dict[str, object] = {}
"""The budget of one run, such as {"requests": 20000, "bytes": "500 MB", "seconds": 3600}."""
DAILY_BUDGET: dict[str, object] = {}
"""The budget of all runs of one map in a day."""

MIN_FREE = ""
"""The room that must stay free on the disk of the data folder, such as "2 GB"."""

CONTACT = os.environ.get("TILEHARVEST_CONTACT", "")
"""A mail address or a page at which a site's owner finds who harvests. The User-Agent contains it."""

USER_AGENTS: list[str] = []
"""User-Agents that replace USER_AGENT. Each block of tiles takes one of them at random."""

# After so many failures in a row a host is only probed until it answers again.
HOST_DOWN_AFTER = 10
HOST_DOWN_PAUSE = 1.0
"""Seconds before the first probe. Each further pause is twice as long."""
HOST_DOWN_LONGEST_PAUSE = 60.0
HOST_DOWN_PATIENCE = 900.0
"""Seconds for which a host may be down before the harvest ends. It can be continued later."""

# --- Ours: messages and metrics --------------------------------------------------------------------

PROGRESS_INTERVAL = 60.0
"""Seconds between two lines of a harvest's progress if the output is not a terminal."""

PROMETHEUS_PORT = os.environ.get("PROMETHEUS_PORT", "")
"""The port at which a running crawl serves its metrics to Prometheus. Empty or 0 means no port."""
PROMETHEUS_HOST = os.environ.get("PROMETHEUS_HOST", "127.0.0.1")

NOTIFY: list[str] = []
"""The addresses of messages about a harvest, in Apprise's form. `${NAME}` stands for an environment
variable."""

NOTIFY_ON = ["change", "failure"]
"""The occasions of a message: "change", "failure" or "always"."""

VIEWER_URL = os.environ.get("TILEHARVEST_VIEWER", "")
"""The address of the viewer, for links in messages."""

# --- Scrapy's ---------------------------------------------------------------------------------------

USER_AGENT = "TileHarvest/0.1"
"""The name of the program, so that a site's owner can find out who visits. CONTACT is added to it."""

ROBOTSTXT_OBEY = True
"""The spiders of tiles obey robots.txt themselves, including its Crawl-delay."""

ASYNCIO_EVENT_LOOP = "uvloop.Loop"
"""uvloop saves about 15 % of the time for one unchanged tile."""

LOG_LEVEL = "INFO"
LOG_VERSIONS: list[str] = []
EXTENSIONS = {"tileharvest.extensions.prometheus.Prometheus": 500}

# Both run any code that is sent to them.
REMOTE_CONTROL_ENABLED = False
TELNETCONSOLE_ENABLED = False
