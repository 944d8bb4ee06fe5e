"""The page for Prometheus, read by prometheus-client's own parser."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tileharvest.extensions.prometheus import metrics_of
from tileharvest.history.costs import CostMeter
from tileharvest.queue.port import Counts, Worker
from tileharvest.tiles.outcomes import Outcome

COUNTS = Counts(plus=1, normal=2, minus=3, delayed=4, leased=5, failed=6, done=7, seen=8)
LOCAL = (COUNTS, None)


def worker(host: str, heartbeat: float) -> Worker:
    return Worker(host, "machine", 7, "2026-11-20", 0.0, 40, heartbeat, 3, 100.0)


FLEET = (COUNTS, [worker("box", 90.0), worker("crate", 95.0)])


def page_of(*watched: Any) -> dict[tuple[str, ...], float]:
    """Each value by its name and its labels' values, in the order of the labels' names."""
    page = generate_latest(SimpleNamespace(collect=lambda: metrics_of(watched)))  # type: ignore[arg-type]
    families = text_string_to_metric_families(page.decode())
    samples = [sample for family in families for sample in family.samples]
    found = {(one.name, *(one.labels[key] for key in sorted(one.labels))): one.value for one in samples}
    assert len(found) == len(samples), "Prometheus refuses a page with two values of one name"
    return found


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


def test_one_page_has_the_counts_of_each_queue_that_is_watched_there() -> None:
    large = {
        tuple("large" if part == "small" else part for part in key): value for key, value in QUEUE.items()
    }
    assert page_of(("small", LOCAL, None), ("small", LOCAL, None), ("large", LOCAL, None)) == QUEUE | large


def test_of_a_shared_queue_there_is_each_worker_too() -> None:
    assert page_of(("small", FLEET, None)) == QUEUE | {
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
    found = page_of(("small", None, harvest))
    tiles = {(f"{outcome}", "small"): 0 for outcome in Outcome}
    assert found == {
        ("tileharvest_queue_up", "small"): 0,
        **{("tileharvest_tiles_total", *reversed(key)): 0 for key in tiles},
        ("tileharvest_tiles_total", "small", "add"): 3,
        ("tileharvest_requests_total", "small"): 11,
        ("tileharvest_received_bytes_total", "small"): 2_000,
        ("tileharvest_stored_bytes_total", "small"): 1_000,
    }
