"""Scrapy's extension that serves a crawl's metrics to Prometheus. docs/watching.md lists them."""

from __future__ import annotations

import asyncio
import errno
import logging
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from scrapy import signals
from scrapy.exceptions import NotConfigured

from tileharvest.errors import QueueError
from tileharvest.maps.settings import setting
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.scheduler import scheduler_of
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric
    from scrapy.crawler import Crawler

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.queue.port import Counts, Worker
    from tileharvest.scheduler.crawl import CrawlContext

    _Queue: TypeAlias = tuple[Counts, Sequence[Worker] | None]
    """The counts of a queue, and the workers of a shared one."""
    _Figures: TypeAlias = tuple[str, _Queue | None, Harvest | None]
    """Of a map or a spider its name, its queue unless it cannot be asked, and the harvest of a map."""

_logger = logging.getLogger(__name__)

_LARGEST_PORT: Final = 65535

_Sample: TypeAlias = tuple[str, str, dict[str, str], float]
"""A value of the page: its name, the words about it, its labels besides `map`, and the number."""

_TO_ANSWER: Final = 10.0
"""Seconds that a crawl has for its figures. It needs some milliseconds."""

_WATCHED: Final[list[Prometheus]] = []
"""The crawls of this process that are watched."""
_SERVED: Final[set[tuple[str, int]]] = set()
"""The addresses that are served, by host and port. Their servers stay as long as the process."""


class _Collector:
    """Collects the metrics of all watched crawls. A server calls it in threads of its own."""

    def collect(self) -> Iterable[Metric]:
        found = []
        for crawl in _WATCHED.copy():
            # A crawl may end meanwhile.
            with suppress(CancelledError, TimeoutError, RuntimeError):
                figures = asyncio.run_coroutine_threadsafe(crawl.figures(), crawl.loop)
                found.append(figures.result(_TO_ANSWER))
        return metrics_of(found)


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
        crawl, port = crawl_of(crawler), str(setting(crawler.settings, "PROMETHEUS_PORT") or "0")
        if not port.isdecimal() or int(port) > _LARGEST_PORT:
            _logger.warning(
                "PROMETHEUS_PORT %s is not a port: write 0 to %d; this goes on without", port, _LARGEST_PORT
            )
            raise NotConfigured
        # A spider that must not harvest ends at once.
        if int(port) == 0 or crawl.is_ending:
            raise NotConfigured
        # An empty host would mean every address of the computer, and nobody should open these by that.
        return cls(crawl, (setting(crawler.settings, "PROMETHEUS_HOST") or "127.0.0.1", int(port)))

    async def figures(self) -> _Figures:
        """Returns the map, what is known of its queue, and its harvest."""
        crawler, harvest, queue = self._crawl.crawler, self._crawl.harvest, None
        scheduler = scheduler_of(crawler)
        if scheduler is not None:
            # The queue may not be open yet, or not any more.
            with suppress(QueueError, RuntimeError):
                counts = await scheduler.queue.counts(scheduler.segment)
                queue = counts, await scheduler.queue.workers()
        assert crawler.spider is not None
        return harvest.description.name if harvest else crawler.spider.name, queue, harvest

    def _opened(self) -> None:
        # Who has installed the scheduler alone does not have it.
        from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415

        self.loop = asyncio.get_running_loop()
        host, port = self._address
        if self._address not in _SERVED:
            registry = CollectorRegistry()
            registry.register(_Collector())
            try:
                start_http_server(port, host, registry)
            except (OSError, UnicodeError) as error:
                in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
                _logger.warning(
                    "port %d of %s is not served to Prometheus: %s; this goes on without. Each worker on one"
                    " computer needs a port of its own, such as -s PROMETHEUS_PORT=%d",
                    port,
                    host,
                    "it is in use" if in_use else error,
                    port + 1,
                )
                return
            _SERVED.add(self._address)
            _logger.info("numbers for Prometheus at http://%s:%d/metrics", host, port)
        _WATCHED.append(self)

    def _closed(self) -> None:
        if self in _WATCHED:
            _WATCHED.remove(self)


def metrics_of(watched: Iterable[_Figures]) -> Iterable[Metric]:
    """Returns the metrics of these maps and spiders.

    Without a queue they only say that it cannot be asked. Without a harvest there are none of this process.
    Every metric has the label `map`. Of two crawls of one spider the later one counts.
    """
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

    metrics: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
    latest = {figures[0]: figures for figures in watched}
    for map_name, queue, harvest in latest.values():
        samples: list[Any] = [(GaugeMetricFamily, *sample) for sample in _of_queue(queue)]
        samples += [(CounterMetricFamily, *sample) for sample in _of_process(harvest)]
        for kind, name, what, labels, number in samples:
            metric = kind(f"tileharvest_{name}", what, labels=("map", *labels))
            metrics.setdefault(name, metric).add_metric((map_name, *labels.values()), number)
    return metrics.values()


def _of_queue(queue: _Queue | None) -> Iterator[_Sample]:
    yield "queue_up", "1 where the queue could be asked, 0 where not", {}, queue is not None
    if queue is None:
        return
    counts, workers = queue
    for lane, count in counts.pending.items():
        yield "pending", "Requests that wait and are due", {"lane": lane}, count
    yield "delayed", "Requests that wait until they are due", {}, counts.delayed
    yield "leased", "Requests handed to workers and not yet finished", {}, counts.leased
    yield "failures", "Requests in the failure list", {}, counts.failed
    yield "done", "Requests finished in the newest segment", {}, counts.done
    yield "seen", "Different requests accepted in the newest segment", {}, counts.seen
    if workers is not None:
        yield from _of_fleet([one.as_plain() for one in workers])


def _of_fleet(workers: Sequence[Mapping[str, Any]]) -> Iterator[_Sample]:
    yield "workers", "Workers heard of lately", {}, len(workers)
    # A container that was killed and started again is listed twice for a while, with the same host and pid.
    # The one that was heard of last counts.
    by_age = sorted(workers, key=lambda one: -one["heartbeat_age_seconds"])
    latest = {(one["host"], one["pid"]): one for one in by_age}
    for name, what in (
        ("finished", "Requests that the worker has finished since it started"),
        ("leased", "Requests that the worker holds"),
        ("heartbeat_age_seconds", "Seconds since the worker was last heard of"),
    ):
        for (host, pid), worker in latest.items():
            if worker[name] is not None:
                yield f"worker_{name}", what, {"host": host, "pid": str(pid)}, worker[name]


def _of_process(harvest: Harvest | None) -> Iterator[_Sample]:
    if harvest is None:
        return
    tally, cost_meter = harvest.tally, harvest.cost_meter
    for outcome in Outcome:
        yield "tiles", "Tiles with a result, of this process", {"outcome": outcome}, tally[outcome]
    for name, what, count in (
        ("requests", "Requests made by this process, repeats and redirects included", cost_meter.requests),
        ("received_bytes", "Bytes of answers to this process", cost_meter.received_bytes),
        ("stored_bytes", "Bytes of images that were new to the store", cost_meter.stored_bytes),
    ):
        yield name, what, {}, count
