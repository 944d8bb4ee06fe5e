"""Three workers that are steered from another terminal: what one is told, all do."""

import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.project import LayerTile
from tests.end_to_end.rendering import LAYER, Rendering
from tests.fleet.workers import MAP, Fleet
from tests.servers.misbehaving import Misbehaving, Received
from tests.servers.rules import Gate, Slow, tiles_only

ON_THE_WAY: Final = 4
"""Requests at the most, when all three have said that they pause: the map's concurrency."""
LEASE: Final = 10.0
"""Seconds. On a busy machine a worker may come late to extend a lease, but not that late."""
RATE: Final = 30
"""Requests per second."""
EARLY: Final = 0.05
"""Seconds: what the server and another clock take for the same moment."""
STARTS: Final = re.compile(rf"a request of map '{MAP}' starts at (.*)$", re.MULTILINE)
"""What is logged for debugging."""


def tell(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """Runs a command as from another terminal. Returns what it wrote."""
    monkeypatch.setenv("REDIS_URL", fleet.redis_url)
    return fleet.project.scrapy(*words).stdout


def test_all_pause_go_on_at_another_rate_and_ask_for_each_tile_once(
    fleet: Fleet,
    small: Rendering,
    misbehaving: Callable[[Path], Misbehaving],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = misbehaving(small.folder)
    gate = Gate(60, keeps_all=True)
    site.rule_for_all = tiles_only(gate)

    def received() -> list[Received]:
        return [one for one in site.received if one.path.endswith(".png")]

    fleet.settings |= {"LEASE_SECONDS": LEASE, "LOG_LEVEL": "DEBUG"}
    fleet.describe(site.url, requests_per_second=RATE)
    workers = [fleet.start() for _ in range(3)]
    fleet.await_until(lambda: gate.is_reached and len(fleet.known()) == 3)
    assert "requests on the way finish, no further one starts" in tell(fleet, monkeypatch, "pause", MAP)
    fleet.await_until(lambda: all(f"map '{MAP}' is paused since" in one.log for one in workers))
    before, moment = len(received()), fleet.known()[0].looked_at
    gate.open()
    # Each worker lives on for a while.
    fleet.await_until(lambda: min(one.heartbeat for one in fleet.known()) > moment)
    paused = len(received())
    assert paused - before <= ON_THE_WAY
    assert fleet.counts().left > 0
    tell(fleet, monkeypatch, "rate", MAP, "60/s")
    resumed, since = time.time(), time.time() - time.monotonic()
    assert tell(fleet, monkeypatch, "resume", MAP) == f"map '{MAP}' goes on\n"
    fleet.assert_ended_together(*workers)
    fleet.assert_harvested(small)
    assert set(Counter((one.method, one.path) for one in received()).values()) == {1}
    # The costs of all workers.
    images = sum(len(body) for body in small.images().values())
    assert fleet.project.query("SELECT requests, received_bytes >= ? FROM harvests", images) == [
        (len(site.received), 1)
    ]
    starts = sorted(float(start) for one in workers for start in STARTS.findall(one.log))
    given = [start for start in starts if start > resumed]
    after = [one.time + since for one in received()[paused:]]
    # As told: at its own rate no two would be so close to each other.
    assert min(later - earlier for earlier, later in pairwise(given)) < 0.99 / RATE
    # Each worker tells Redis' time by its own clock, late by as long as a call takes.
    assert max(given) - min(given) > 0.8 * (len(given) - 1) / 60
    # Also those have a turn again that waited for theirs in a block before the pause, of whichever worker.
    assert len(given) >= len(after) > 0
    assert all(moment > start - EARLY for moment, start in zip(after, given, strict=False))


def block_of(tile: LayerTile) -> tuple[int, int, int]:
    return tile.zoom, tile.x >> (1 - tile.zoom) >> 3, tile.y >> (1 - tile.zoom) >> 3


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_worker_had_leased_is_the_others_and_nothing_else_is_asked_again(
    fleet: Fleet, small: Rendering, misbehaving: Callable[[Path], Misbehaving], how: signal.Signals
) -> None:
    """SIGTERM, as from `docker stop` or a scrapyd cancel, gives all back at once."""
    site = misbehaving(small.folder)
    fleet.settings |= {"LEASE_SECONDS": LEASE}
    fleet.describe(site.url)
    worker = fleet.start()
    fleet.await_until(lambda: len(site.received) > 50)
    site.rule_for_all = tiles_only(Slow(0.2))
    fleet.await_until(lambda: any(one.leased for one in fleet.known()))
    worker.send(how)
    fleet.await_ends(worker)
    # The harvest is not finished.
    assert worker.status == (1 if how is signal.SIGTERM else -how)
    leased = fleet.counts().leased
    assert (leased == 0) == (how is signal.SIGTERM)
    site.rule_for_all = None
    others = [fleet.start() for _ in range(2)]
    fleet.assert_ended_together(*others)
    fleet.assert_harvested(small)
    asked = Counter((one.method, one.path) for one in site.received)
    # Each of the three workers finds out what the site allows, and what it has.
    beside = {("GET", "/robots.txt"), ("GET", "/overviewerConfig.js")}
    again = {one for one, times in asked.items() if times > 1}
    assert beside <= again
    tiles = [(method, path.removeprefix(f"/{LAYER}").removesuffix(".png")) for method, path in again - beside]
    assert len({(method, block_of(small.tile(path))) for method, path in tiles}) <= leased
