"""The page that Prometheus reads, and its server. docs/watching.md lists what is on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from tileharvest.errors import QueueError
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from prometheus_client.metrics_core import Metric

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.monitoring.overview import Crew, Overview

FRESH: Final = 5.0
"""Seconds for which what the queue has told is told again, however often the page is asked for."""

PATIENCE: Final = 5.0
"""Seconds that a page waits for the queue; Prometheus waits 10 s for a page."""

_TO_END: Final = 0.3
"""Seconds that pages under way have to end when the crawl does."""

_WORKER: Final = ("map", "host", "pid")


class Numbers(Collector):
    """All that is on one page."""

    def __init__(self, map_name: str, overview: Overview | None, harvest: Harvest | None) -> None:
        """Without an overview the queue is told to be away, and nothing is told of it. Without a harvest
        nothing is told of this process."""
        self._map = map_name
        self._overview = overview
        self._harvest = harvest

    def collect(self) -> Iterator[Metric]:
        yield self._gauge(
            "queue_up", "1 where the queue could be asked, 0 where not", self._overview is not None
        )
        if self._overview is not None:
            yield from self._of_queue(self._overview)
            if self._overview.crew is not None:
                yield from self._of_fleet(self._overview, self._overview.crew)
        if self._harvest is not None:
            yield from self._of_process(self._harvest)

    def _of_queue(self, overview: Overview) -> Iterator[Metric]:
        counts = overview.counts
        pending = GaugeMetricFamily(
            "tileharvest_pending", "Requests that wait and are due", labels=["map", "lane"]
        )
        for lane, count in sorted(counts.pending.items()):
            pending.add_metric([self._map, lane.name.lower()], count)
        yield pending
        yield self._gauge("delayed", "Requests that wait until they are due", counts.delayed)
        yield self._gauge("leased", "Requests handed to workers and not yet finished", counts.leased)
        yield self._gauge("failures", "Requests in the failure list", counts.failed)
        yield self._gauge("done", "Requests finished in the newest segment", counts.done)
        yield self._gauge("seen", "Different requests accepted in the newest segment", counts.seen)

    def _of_fleet(self, overview: Overview, crew: Crew) -> Iterator[Metric]:
        yield self._gauge(
            "oldest_lease_seconds", "Age of the oldest lease, 0 without any", overview.oldest_lease or 0.0
        )
        yield self._gauge("dead_letters", "Entries that are no requests", overview.dead_letters)
        yield self._gauge("workers", "Workers heard of lately", len(crew.workers))
        rate, leased, share, silent = (
            GaugeMetricFamily(f"tileharvest_worker_{name}", what, labels=_WORKER)
            for name, what in (
                ("rate", "Requests per second that the worker finished lately"),
                ("leased", "Requests that the worker holds"),
                ("share", "Requests that the worker may have on the way at the same time"),
                ("heartbeat_age_seconds", "Seconds since the worker was last heard of"),
            )
        )
        # A container that was killed and started again has its name and number twice for a while, and
        # Prometheus refuses a page with two values of the same name: the one heard of last counts.
        latest = {(one.host, one.pid): one for one in sorted(crew.workers, key=lambda one: one.heartbeat)}
        for (host, pid), worker in latest.items():
            labels = [self._map, host, str(pid)]
            rate.add_metric(labels, worker.rate)
            leased.add_metric(labels, worker.leased)
            silent.add_metric(labels, crew.silent(worker))
            if worker.share is not None:
                share.add_metric(labels, worker.share)
        yield from (rate, leased, share, silent)

    def _of_process(self, harvest: Harvest) -> Iterator[Metric]:
        tiles = CounterMetricFamily(
            "tileharvest_tiles", "Tiles with a result, of this process", labels=["map", "outcome"]
        )
        for outcome in Outcome:
            tiles.add_metric([self._map, outcome.value], harvest.tally[outcome])
        yield tiles
        traffic = harvest.traffic
        for name, what, count in (
            ("requests", "Requests made by this process, repeats and redirects included", traffic.requests),
            ("received_bytes", "Bytes of answers to this process", traffic.received_bytes),
            ("stored_bytes", "Bytes of images that were new to the store", traffic.stored_bytes),
        ):
            counter = CounterMetricFamily(f"tileharvest_{name}", what, labels=["map"])
            counter.add_metric([self._map], count)
            yield counter

    def _gauge(self, name: str, what: str, value: float) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(f"tileharvest_{name}", what, labels=["map"])
        gauge.add_metric([self._map], value)
        return gauge


class MetricsServer:
    """Serves the page at /metrics, in the event loop of the crawl. No part of it waits or blocks elsewhere.

    `ask` asks the queue, and raises QueueError; RuntimeError while it is being closed.
    """

    def __init__(
        self,
        map_name: str,
        ask: Callable[[], Awaitable[Overview | None]],
        harvest: Harvest | None = None,
        *,
        fresh: float = FRESH,
        patience: float = PATIENCE,
    ) -> None:
        self._map = map_name
        self._fresh = fresh
        self._patience = patience
        self._ask = ask
        self._harvest = harvest
        self._runner: web.AppRunner | None = None
        self._asking: asyncio.Task[Overview | None] | None = None
        self._asked = 0.0

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
        """Harmless when it does not listen."""
        runner, self._runner = self._runner, None
        if self._asking is not None:
            self._asking.cancel()
        if runner is not None:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        numbers = Numbers(self._map, await self._overview(), self._harvest)
        encode, kind = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(numbers), headers={"Content-Type": kind})

    async def _overview(self) -> Overview | None:
        """What is known of the queue; None if it does not answer in time. One question at a time."""
        now = asyncio.get_running_loop().time()
        if self._asking is None or (self._asking.done() and now - self._asked >= self._fresh):
            self._asked = now
            self._asking = asyncio.create_task(self._look())
        asking = self._asking
        await asyncio.wait([asking], timeout=self._patience)
        return asking.result() if asking.done() and not asking.cancelled() else None

    async def _look(self) -> Overview | None:
        try:
            return await self._ask()
        except (QueueError, RuntimeError):
            return None
