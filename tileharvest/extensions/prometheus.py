"""Scrapy's extension that serves a crawl's metrics to Prometheus, and its server."""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from typing import TYPE_CHECKING, Final, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from tileharvest.errors import ConfigurationError, QueueError
from tileharvest.maps.settings import setting
from tileharvest.monitoring.overview import look
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.scheduler import scheduler_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp import web
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.monitoring.overview import Overview

_logger = logging.getLogger(__name__)

_TO_END: Final = 0.3
"""Seconds that pages under way have to end when the crawl does."""

_SERVED: Final[dict[tuple[str, int], tuple[list[Prometheus], web.AppRunner]]] = {}
"""By host and port: the crawls of this process that are watched there, in the order of the page, and their
server. It works in their event loop, and no crawl waits for it."""


class Prometheus:
    """Serves the metrics of a crawl while it runs, if PROMETHEUS_PORT is set. Its errors never stop a
    crawl."""

    def __init__(
        self,
        map_name: str,
        ask: Callable[[], Awaitable[Overview | None]],
        harvest: Harvest | None = None,
        *,
        address: tuple[str, int] = ("", 0),
    ) -> None:
        """`ask` asks the queue. It may raise QueueError, and RuntimeError while the queue closes."""
        self._map = map_name
        self._ask = ask
        self._harvest = harvest
        self._host, self._port = address

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

        async def ask() -> Overview | None:
            scheduler = scheduler_of(crawler)
            if scheduler is None or not scheduler.is_open:
                return None
            return await look(scheduler.queue, scheduler.segment, time.time())

        harvest = crawl.harvest
        name = harvest.description.name if harvest else crawler.spider.name  # type: ignore[union-attr]
        extension = cls(name, ask, harvest, address=address)
        crawler.signals.connect(extension._opened, signals.spider_opened)
        crawler.signals.connect(extension._closed, signals.spider_closed)
        return extension

    async def watched(self) -> tuple[str, Overview | None, Harvest | None]:
        """Returns the map, the overview of its queue, and its harvest, as `metrics_page` takes them."""
        try:
            overview = await self._ask()
        except (QueueError, RuntimeError):
            overview = None
        return self._map, overview, self._harvest

    async def _opened(self) -> None:
        address = self._host, self._port
        if address in _SERVED:
            _SERVED[address][0].append(self)
            return
        crawls = [self]
        server = metrics_server(crawls)
        _SERVED[address] = crawls, server
        try:
            await listen(server, *address)
        except (OSError, UnicodeError) as error:
            _SERVED.pop(address)
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
        crawls, server = _SERVED.get((self._host, self._port), ([], None))
        if server is None or self not in crawls:
            return
        crawls.remove(self)
        if not crawls:
            # Another crawl may begin while the last pages end. It starts a server of its own.
            _SERVED.pop((self._host, self._port))
            await server.cleanup()


def metrics_server(crawls: Sequence[Prometheus]) -> web.AppRunner:
    """Returns a server for the page at /metrics, which has the metrics of these crawls at each moment. It
    does not listen yet."""
    from aiohttp import web  # noqa: PLC0415

    async def answer(request: web.Request) -> web.Response:
        from tileharvest.extensions.metrics import metrics_page  # noqa: PLC0415

        watched = await asyncio.gather(*(crawl.watched() for crawl in crawls))
        body, kind = metrics_page(watched, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": kind})

    application = web.Application()
    application.router.add_get("/metrics", answer)
    return web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=_TO_END)


async def listen(server: web.AppRunner, host: str, port: int) -> None:
    """Begins to serve. Raises OSError if the port cannot be used, and UnicodeError for a wrong host."""
    from aiohttp import web  # noqa: PLC0415

    await server.setup()
    try:
        await web.TCPSite(server, host, port).start()
    except BaseException:
        await server.cleanup()
        raise


_LARGEST_PORT: Final = 65535


def metrics_address(settings: BaseSettings) -> tuple[str, int] | None:
    """Returns the host and port of the metrics, or None if no port is set. Raises ConfigurationError."""
    port = str(setting(settings, "PROMETHEUS_PORT") or "0")
    if not port.isdecimal() or int(port) > _LARGEST_PORT:
        raise ConfigurationError(f"PROMETHEUS_PORT {port} is not a port: write 0 to {_LARGEST_PORT}")
    # For asyncio an empty host means every address of the computer. Nobody should open these by an empty
    # setting.
    return (setting(settings, "PROMETHEUS_HOST") or "127.0.0.1", int(port)) if int(port) else None
