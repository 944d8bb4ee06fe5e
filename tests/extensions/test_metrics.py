"""The page for Prometheus and its server, read by prometheus-client's own parser."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tileharvest.errors import QueueError
from tileharvest.extensions.prometheus import Prometheus, listen, metrics_server
from tileharvest.history.costs import CostMeter
from tileharvest.monitoring.overview import Overview, workers_as_plain
from tileharvest.queue.port import Counts, Worker
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

COUNTS = Counts(plus=1, normal=2, minus=3, delayed=4, leased=5, failed=6, done=7, seen=8)
LOCAL = Overview(COUNTS)


def worker(host: str, heartbeat: float) -> Worker:
    return Worker(host, "machine", 7, "2026-11-20", 0.0, 40, heartbeat, 3, 100.0)


FLEET = Overview(
    COUNTS,
    workers_as_plain([worker("box", 90.0), worker("crate", 95.0)]),
)


class Page:
    """A server that asks this queue, and what is read from it."""

    def __init__(self, ask: Callable[[], Awaitable[Overview | None]], **options: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.crawls = [Prometheus("small", ask, **options)]
        self.text = ""

    async def __aenter__(self) -> Self:
        self.server = metrics_server(self.crawls)
        await listen(self.server, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.server.cleanup()

    async def read(self) -> dict[tuple[str, ...], float]:
        """Each value by its name and its labels' values, in the order of the labels' names."""
        url = f"http://127.0.0.1:{self.port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            self.text = await response.text()
        samples = [
            sample for family in text_string_to_metric_families(self.text) for sample in family.samples
        ]
        found = {(one.name, *(one.labels[key] for key in sorted(one.labels))): one.value for one in samples}
        assert len(found) == len(samples), "Prometheus refuses a page with two values of one name"
        return found


def page_of(overview: Overview | None, **options: Any) -> dict[tuple[str, ...], float]:
    async def ask() -> Overview | None:
        return overview

    async def read() -> dict[tuple[str, ...], float]:
        async with Page(ask, **options) as page:
            return await page.read()

    return asyncio.run(read())


QUEUE = {
    ("tileharvest_queue_up", "small"): 1,
    ("tileharvest_pending", "plus", "small"): 1,
    ("tileharvest_pending", "normal", "small"): 2,
    ("tileharvest_pending", "minus", "small"): 3,
    ("tileharvest_delayed", "small"): 4,
    ("tileharvest_leased", "small"): 5,
    ("tileharvest_failures", "small"): 6,
    ("tileharvest_done", "small"): 7,
    ("tileharvest_seen", "small"): 8,
}


def test_of_a_local_queue_there_are_its_counts() -> None:
    assert page_of(LOCAL) == QUEUE


def page_of_two(overview: Overview, second: str) -> dict[tuple[str, ...], float]:
    """Returns what a page tells of two crawls, of the map `small` and of the second one."""

    async def ask() -> Overview | None:
        return overview

    async def read() -> dict[tuple[str, ...], float]:
        async with Page(ask) as page:
            page.crawls.append(Prometheus(second, ask))
            return await page.read()

    return asyncio.run(read())


def test_one_page_tells_of_all_crawls_that_are_watched_there() -> None:
    large = {
        tuple("large" if part == "small" else part for part in key): value for key, value in QUEUE.items()
    }
    assert page_of_two(LOCAL, "large") == QUEUE | large


def test_of_a_shared_queue_there_is_each_worker_too() -> None:
    assert page_of(FLEET) == QUEUE | {
        ("tileharvest_workers", "small"): 2,
        ("tileharvest_worker_finished", "box", "small", "7"): 40,
        ("tileharvest_worker_finished", "crate", "small", "7"): 40,
        ("tileharvest_worker_leased", "box", "small", "7"): 3,
        ("tileharvest_worker_leased", "crate", "small", "7"): 3,
        ("tileharvest_worker_heartbeat_age_seconds", "box", "small", "7"): 10,
        ("tileharvest_worker_heartbeat_age_seconds", "crate", "small", "7"): 5,
    }


def test_of_a_harvest_there_is_what_this_process_did() -> None:
    cost_meter = CostMeter(requests=11, received_bytes=2_000, stored_bytes=1_000)
    harvest: Any = SimpleNamespace(tally=Counter({Outcome.ADDED: 3}), cost_meter=cost_meter)
    found = page_of(None, harvest=harvest)
    tiles = {(f"{outcome}", "small"): 0 for outcome in Outcome}
    assert found == {
        ("tileharvest_queue_up", "small"): 0,
        **{("tileharvest_tiles_total", *reversed(key)): 0 for key in tiles},
        ("tileharvest_tiles_total", "small", "add"): 3,
        ("tileharvest_requests_total", "small"): 11,
        ("tileharvest_received_bytes_total", "small"): 2_000,
        ("tileharvest_stored_bytes_total", "small"): 1_000,
    }


@pytest.mark.parametrize(
    "error", [QueueError("Redis does not answer"), RuntimeError("the queue is not open")]
)
def test_a_queue_that_cannot_be_asked_is_told_to_be_away(error: Exception) -> None:
    async def ask() -> Overview:
        raise error

    async def read() -> dict[tuple[str, ...], float]:
        async with Page(ask) as page:
            return await page.read()

    assert asyncio.run(read()) == {("tileharvest_queue_up", "small"): 0}


async def test_a_port_that_is_in_use_is_an_error_and_one_that_was_stopped_is_free() -> None:
    async def ask() -> Overview:
        return LOCAL

    async with Page(ask) as first:
        second = Page(ask)
        second.port = first.port
        with pytest.raises(OSError, match="address already in use"):
            await second.__aenter__()
    async with second:
        assert await second.read() == QUEUE
