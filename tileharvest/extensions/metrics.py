"""The page that Prometheus reads, and its server. docs/watching.md lists what is on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileharvest.extensions.prometheus import Prometheus
    from tileharvest.harvest.harvest import Harvest
    from tileharvest.monitoring.overview import Overview
    from tileharvest.queue.port import Counts

_TO_END: Final = 0.3
"""Seconds that pages under way have to end when the crawl does."""

_Metric = TypeVar("_Metric", Gauge, Counter)

# Counters are made anew for each page, and prometheus_client would tell beside each when that was.
disable_created_metrics()  # type: ignore[no-untyped-call]


class MetricsPage:
    """One page, as a registry of its own: a worker that has gone since the page before is not on it.

    Every value has the label `map`.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._metrics: dict[str, Any] = {}
        self._map = ""

    def tell(self, map_name: str, overview: Overview | None, harvest: Harvest | None) -> None:
        """Adds what is known of a map. Without an overview the page says that its queue is away, and nothing
        else of it. Without a harvest it says nothing of this process."""
        self._map = map_name
        self._tell("queue_up", "1 where the queue could be asked, 0 where not", overview is not None)
        if overview is not None:
            self._tell_queue(overview)
            if overview.workers is not None:
                self._tell_fleet(overview.counts, overview.workers)
        if harvest is not None:
            self._tell_process(harvest)

    def _tell_queue(self, overview: Overview) -> None:
        counts = overview.counts
        pending = self._gauge("pending", "Requests that wait and are due", "lane")
        for lane, count in sorted(counts.pending.items()):
            pending.labels(self._map, lane.name.lower()).set(count)
        self._tell("delayed", "Requests that wait until they are due", counts.delayed)
        self._tell("leased", "Requests handed to workers and not yet finished", counts.leased)
        self._tell("failures", "Requests in the failure list", counts.failed)
        self._tell("done", "Requests finished in the newest segment", counts.done)
        self._tell("seen", "Different requests accepted in the newest segment", counts.seen)

    def _tell_fleet(self, counts: Counts, workers: Sequence[Mapping[str, Any]]) -> None:
        oldest = counts.oldest_lease or 0.0
        self._tell("oldest_lease_seconds", "Age of the oldest lease, 0 without any", oldest)
        self._tell("dead_letters", "Entries that are no requests", counts.dead)
        self._tell("workers", "Workers heard of lately", len(workers))
        # A container that was killed and started again has its name and number twice for a while: the worker
        # that was heard of last counts.
        by_age = sorted(workers, key=lambda one: -one["heartbeat_age_seconds"])
        latest = {(one["host"], one["pid"]): one for one in by_age}
        for name, what in (
            ("rate", "Requests per second that the worker finished lately"),
            ("leased", "Requests that the worker holds"),
            ("share", "Requests that the worker may have on the way at the same time"),
            ("heartbeat_age_seconds", "Seconds since the worker was last heard of"),
        ):
            gauge = self._gauge(f"worker_{name}", what, "host", "pid")
            for labels, worker in latest.items():
                if worker[name] is not None:
                    gauge.labels(self._map, *labels).set(worker[name])

    def _tell_process(self, harvest: Harvest) -> None:
        tiles = self._counter("tiles", "Tiles with a result, of this process", "outcome")
        for outcome in Outcome:
            tiles.labels(self._map, outcome).inc(harvest.tally[outcome])
        traffic = harvest.traffic
        for name, what, count in (
            ("requests", "Requests made by this process, repeats and redirects included", traffic.requests),
            ("received_bytes", "Bytes of answers to this process", traffic.received_bytes),
            ("stored_bytes", "Bytes of images that were new to the store", traffic.stored_bytes),
        ):
            self._counter(name, what).labels(self._map).inc(count)

    def _tell(self, name: str, what: str, value: float) -> None:
        self._gauge(name, what).labels(self._map).set(value)

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return self._metric(Gauge, name, what, labels)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return self._metric(Counter, name, what, labels)

    def _metric(self, kind: type[_Metric], name: str, what: str, labels: tuple[str, ...]) -> _Metric:
        """Returns the same one for all maps of the page."""
        if name not in self._metrics:
            metric = kind(f"tileharvest_{name}", what, ("map", *labels), registry=self.registry)
            self._metrics[name] = metric
        found: _Metric = self._metrics[name]
        return found


class MetricsServer:
    """Serves the page at /metrics, for all crawls of this process that are watched at one address. It works
    in their event loop, and nothing in a crawl waits for it."""

    def __init__(self) -> None:
        self.crawls: list[Prometheus] = []
        """Those that are on the page now, in this order."""
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Returns when it listens. Raises OSError if it cannot, UnicodeError for what names no host."""
        application = web.Application()
        application.router.add_get("/metrics", self._answer)
        runner = web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=_TO_END)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner

    async def stop(self) -> None:
        """Stops listening; does nothing if it does not listen."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        page = MetricsPage()
        await asyncio.gather(*(crawl.tell(page) for crawl in self.crawls))
        encode, kind = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(page.registry), headers={"Content-Type": kind})
