"""The page that Prometheus reads, and its server. docs/watching.md lists its metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tileharvest.extensions.prometheus import Prometheus
    from tileharvest.harvest.harvest import Harvest
    from tileharvest.monitoring.overview import Overview
    from tileharvest.queue.port import Counts

_Sample: TypeAlias = tuple[type[Gauge] | type[Counter], str, str, dict[str, str], float]
"""A value of the page: its kind, its name, the words about it, its labels besides `map`, and the number."""

_TO_END: Final = 0.3
"""Seconds that pages under way have to end when the crawl does."""

# Counters are made anew for each page. Otherwise prometheus_client adds to each the time at which it was
# made.
disable_created_metrics()  # type: ignore[no-untyped-call]


def metrics_server(crawls: Sequence[Prometheus]) -> web.AppRunner:
    """Returns a server for the page at /metrics, which has the metrics of these crawls at each moment. It
    does not listen yet."""

    async def answer(request: web.Request) -> web.Response:
        watched = await asyncio.gather(*(crawl.watched() for crawl in crawls))
        body, kind = metrics_page(watched, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": kind})

    application = web.Application()
    application.router.add_get("/metrics", answer)
    return web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=_TO_END)


async def listen(server: web.AppRunner, host: str, port: int) -> None:
    """Begins to serve. Raises OSError if the port cannot be used, and UnicodeError for a wrong host."""
    await server.setup()
    try:
        await web.TCPSite(server, host, port).start()
    except BaseException:
        await server.cleanup()
        raise


def metrics_page(
    watched: Iterable[tuple[str, Overview | None, Harvest | None]], accepted: str
) -> tuple[bytes, str]:
    """Returns the page about these maps and its type, in a form that the header `Accept` allows.

    Each map has its name, its overview and its harvest. Without an overview the page only says that the queue
    cannot be asked. Without a harvest there are no metrics of this process. Every metric has the label `map`.
    A page has a registry of its own, so that a worker that has gone leaves nothing behind.
    """
    registry = CollectorRegistry()
    metrics: dict[str, Gauge | Counter] = {}
    for map_name, overview, harvest in watched:
        for kind, name, what, labels, number in _samples(overview, harvest):
            if name not in metrics:
                metrics[name] = kind(f"tileharvest_{name}", what, ("map", *labels), registry=registry)
            metric = metrics[name].labels(map_name, *labels.values())
            # Two crawls of one spider share a queue, and each gives all of its figures.
            metric.set(number) if isinstance(metric, Gauge) else metric.inc(number)
    encode, content_type = choose_encoder(accepted)
    return encode(registry), content_type


def _samples(overview: Overview | None, harvest: Harvest | None) -> Iterator[_Sample]:
    yield Gauge, "queue_up", "1 where the queue could be asked, 0 where not", {}, overview is not None
    if overview is not None:
        yield from _of_queue(overview.counts)
        if overview.workers is not None:
            yield from _of_fleet(overview.counts, overview.workers)
    if harvest is not None:
        yield from _of_process(harvest)


def _of_queue(counts: Counts) -> Iterator[_Sample]:
    for lane, count in counts.pending.items():
        yield Gauge, "pending", "Requests that wait and are due", {"lane": lane}, count
    yield Gauge, "delayed", "Requests that wait until they are due", {}, counts.delayed
    yield Gauge, "leased", "Requests handed to workers and not yet finished", {}, counts.leased
    yield Gauge, "failures", "Requests in the failure list", {}, counts.failed
    yield Gauge, "done", "Requests finished in the newest segment", {}, counts.done
    yield Gauge, "seen", "Different requests accepted in the newest segment", {}, counts.seen


def _of_fleet(counts: Counts, workers: Sequence[Mapping[str, Any]]) -> Iterator[_Sample]:
    yield Gauge, "workers", "Workers heard of lately", {}, len(workers)
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
                yield Gauge, f"worker_{name}", what, {"host": host, "pid": pid}, worker[name]


def _of_process(harvest: Harvest) -> Iterator[_Sample]:
    tally, cost_meter = harvest.tally, harvest.cost_meter
    for outcome in Outcome:
        yield Counter, "tiles", "Tiles with a result, of this process", {"outcome": outcome}, tally[outcome]
    for name, what, count in (
        ("requests", "Requests made by this process, repeats and redirects included", cost_meter.requests),
        ("received_bytes", "Bytes of answers to this process", cost_meter.received_bytes),
        ("stored_bytes", "Bytes of images that were new to the store", cost_meter.stored_bytes),
    ):
        yield Counter, name, what, {}, count
