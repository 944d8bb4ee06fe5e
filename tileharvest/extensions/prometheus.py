"""Scrapy's extension that lets Prometheus watch a crawl, where PROMETHEUS_PORT is set."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Final, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from tileharvest.errors import ConfigurationError
from tileharvest.maps.settings import setting
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.scheduler import scheduler_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.extensions.metrics import MetricsServer, WatchedCrawl
    from tileharvest.monitoring.overview import Overview

_logger = logging.getLogger(__name__)

_SERVERS: Final[dict[tuple[str, int], MetricsServer]] = {}
"""By host and port. The crawls of a process share them, as it may harvest many maps at once."""


class Prometheus:
    """Serves the numbers of a crawl from its beginning to its end. What it cannot do never stops a crawl."""

    def __init__(self, crawler: Crawler, host: str, port: int) -> None:
        # Almost nobody uses it, and to load it takes 20 ms of each crawl.
        from tileharvest.extensions.metrics import WatchedCrawl  # noqa: PLC0415

        self._crawl = crawl_of(crawler)
        self._host = host
        self._port = port
        harvest = self._crawl.harvest
        if self._crawl.is_ending:
            # The spider was refused its harvest and ends at once.
            raise NotConfigured
        name = harvest.description.name if harvest else crawler.spider.name  # type: ignore[union-attr]
        self._watched: WatchedCrawl = WatchedCrawl(name, self._overview, harvest)
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured, which switches it off without a word, unless a port is set."""
        try:
            address = metrics_address(crawler.settings)
        except ConfigurationError as error:
            _logger.warning("%s; this goes on without", error)
            raise NotConfigured from None
        if address is None:
            raise NotConfigured
        return cls(crawler, *address)

    async def _overview(self) -> Overview | None:
        scheduler = scheduler_of(self._crawl.crawler)
        return None if scheduler is None else await scheduler.overview()

    async def _opened(self) -> None:
        from tileharvest.extensions.metrics import MetricsServer  # noqa: PLC0415

        if (server := _SERVERS.get((self._host, self._port))) is not None:
            server.crawls.append(self._watched)
            return
        server = _SERVERS[self._host, self._port] = MetricsServer()
        server.crawls.append(self._watched)
        try:
            await server.start(self._host, self._port)
        except (OSError, UnicodeError) as error:
            _SERVERS.pop((self._host, self._port))
            in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            _logger.warning(
                "port %d of %s is not served to Prometheus: %s; this goes on without. Each worker on one"
                " computer needs a port of its own, such as -s PROMETHEUS_PORT=%d",
                self._port,
                self._host,
                "it is in use" if in_use else error,
                self._port + 1,
            )
        else:
            _logger.info("numbers for Prometheus at http://%s:%d/metrics", self._host, self._port)

    async def _closed(self) -> None:
        self._watched.close()
        server = _SERVERS.get((self._host, self._port))
        if server is None or self._watched not in server.crawls:
            return
        server.crawls.remove(self._watched)
        if not server.crawls:
            # Another crawl may begin while the last pages end.
            _SERVERS.pop((self._host, self._port))
            await server.stop()


_LARGEST_PORT: Final = 65535


def metrics_address(settings: BaseSettings) -> tuple[str, int] | None:
    """Returns host and port at which a crawl's numbers are served, or None if they are served nowhere. Raises
    ConfigurationError."""
    port = str(setting(settings, "PROMETHEUS_PORT") or "0")
    if not port.isdecimal() or int(port) > _LARGEST_PORT:
        raise ConfigurationError(f"PROMETHEUS_PORT {port} is no port: write a number up to {_LARGEST_PORT}")
    # To asyncio an empty host means every address there is: nobody should open that by leaving something out.
    return (setting(settings, "PROMETHEUS_HOST") or "127.0.0.1", int(port)) if int(port) else None
