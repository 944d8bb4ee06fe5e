"""Scrapy's extension that serves a crawl's metrics to Prometheus."""

from __future__ import annotations

import errno
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from tileharvest.errors import ConfigurationError, QueueError
from tileharvest.maps.settings import setting
from tileharvest.monitoring.overview import look
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.scheduler import scheduler_of

if TYPE_CHECKING:
    from aiohttp import web
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.monitoring.overview import Overview
    from tileharvest.scheduler.crawl import CrawlContext

_logger = logging.getLogger(__name__)

_LARGEST_PORT: Final = 65535

_SERVED: Final[dict[tuple[str, int], tuple[list[Prometheus], web.AppRunner]]] = {}
"""By host and port: the crawls of this process that are watched there, in the order of the page, and their
server. It works in their event loop, and no crawl waits for it."""


class Prometheus:
    """Serves the metrics of a crawl while it runs, if PROMETHEUS_PORT is set. Its errors never stop a
    crawl."""

    def __init__(self, crawl: CrawlContext, address: tuple[str, int]) -> None:
        self._crawl, self._address = crawl, address
        crawl.crawler.signals.connect(self._opened, signals.spider_opened)
        crawl.crawler.signals.connect(self._closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured if no port is set. Scrapy then leaves the extension out."""
        try:
            address = metrics_address(crawler.settings)
        except ConfigurationError as error:
            _logger.warning("%s; this goes on without", error)
            raise NotConfigured from None
        crawl = crawl_of(crawler)
        # A spider that must not harvest ends at once.
        if address is None or crawl.is_ending:
            raise NotConfigured
        return cls(crawl, address)

    async def watched(self) -> tuple[str, Overview | None, Harvest | None]:
        """Returns the map, the overview of its queue, and its harvest, as `metrics_page` takes them."""
        crawler, harvest, overview = self._crawl.crawler, self._crawl.harvest, None
        scheduler = scheduler_of(crawler)
        if scheduler is not None and scheduler.is_open:
            # The queue may close meanwhile.
            with suppress(QueueError, RuntimeError):
                overview = await look(scheduler.queue, scheduler.segment, time.time())
        assert crawler.spider is not None
        return harvest.description.name if harvest else crawler.spider.name, overview, harvest

    async def _opened(self) -> None:
        # Only here, as the server takes long to load.
        from tileharvest.extensions.metrics import listen, metrics_server  # noqa: PLC0415

        host, port = self._address
        if self._address in _SERVED:
            _SERVED[self._address][0].append(self)
            return
        crawls = [self]
        server = metrics_server(crawls)
        _SERVED[self._address] = crawls, server
        try:
            await listen(server, host, port)
        except (OSError, UnicodeError) as error:
            _SERVED.pop(self._address)
            in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            _logger.warning(
                "port %d of %s is not served to Prometheus: %s; this goes on without. Each worker on one"
                " computer needs a port of its own, such as -s PROMETHEUS_PORT=%d",
                port,
                host,
                "it is in use" if in_use else error,
                port + 1,
            )
        else:
            _logger.info("numbers for Prometheus at http://%s:%d/metrics", host, port)

    async def _closed(self) -> None:
        crawls, server = _SERVED.get(self._address, ([], None))
        if server is None or self not in crawls:
            return
        crawls.remove(self)
        if not crawls:
            # Another crawl may begin while the last pages end. It starts a server of its own.
            _SERVED.pop(self._address)
            await server.cleanup()


def metrics_address(settings: BaseSettings) -> tuple[str, int] | None:
    """Returns the host and port of the metrics, or None if no port is set. Raises ConfigurationError."""
    port = str(setting(settings, "PROMETHEUS_PORT") or "0")
    if not port.isdecimal() or int(port) > _LARGEST_PORT:
        raise ConfigurationError(f"PROMETHEUS_PORT {port} is not a port: write 0 to {_LARGEST_PORT}")
    # For asyncio an empty host means every address of the computer. Nobody should open these by an empty
    # setting.
    return (setting(settings, "PROMETHEUS_HOST") or "127.0.0.1", int(port)) if int(port) else None
