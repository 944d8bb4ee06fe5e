"""Three workers that are steered from another terminal: what one is told, all do."""

from __future__ import annotations

import time
from collections import Counter
from hashlib import sha1
from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.gaps import EARLY, gaps_between, given_starts
from tests.fleet.gate import Gate, tiles_only
from tests.fleet.records import assert_harvested, records
from tests.fleet.workers import HARVEST, MAP
from tileharvest.queue.port import Lane

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet, Worker
    from tests.servers.misbehaving import Misbehaving, Received
    from tests.servers.nginx import LogLine, Nginx

ON_THE_WAY: Final = 4
"""Requests at the most, when all three have said that they pause: the map's concurrency."""
LEASE: Final = 10.0
"""Seconds. On a busy machine a worker may come late to extend a lease, but not that late."""
SETTINGS: Final = {"LEASE_SECONDS": LEASE, "LOG_LEVEL": "DEBUG"}
RATE: Final = 30
"""Requests per second."""
SLOW: Final = 5
"""Requests per second, so few that a busy machine comes to an order long before the harvest ends."""


def tell(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """Runs a command as from another terminal. Returns what it wrote."""
    monkeypatch.setenv("REDIS_URL", fleet.redis_url)
    return fleet.project.scrapy(*words).stdout


def start(fleet: Fleet, server: Misbehaving | Nginx, rate: int) -> list[Worker]:
    fleet.settings |= SETTINGS
    fleet.describe(server.url, requests_per_second=rate)
    return fleet.start_several(3)


def started(fleet: Fleet, server: Nginx) -> list[Worker]:
    """Three that work, of a harvest that has begun."""
    workers = start(fleet, server, SLOW)
    fleet.await_until(lambda: len([one for one in fleet.known() if one.finished]) == 3)
    return workers


def starts(server: Nginx) -> list[float]:
    return sorted(line.time - line.duration for line in server.log() if is_tile(line))


def asked(server: Nginx) -> Counter[tuple[str, str]]:
    return Counter((line.method, line.path) for line in server.log() if is_tile(line))


def is_tile(line: LogLine) -> bool:
    return line.path.endswith(".png")


def test_all_pause_go_on_at_another_rate_and_ask_for_each_tile_once(
    fleet: Fleet,
    small: Rendering,
    misbehaving: Callable[[Path], Misbehaving],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = misbehaving(small.folder)
    # So many are found by then that some are leased ahead. None of these starts, as no more are answered.
    gate = Gate(60, keeps_all=True)
    site.rule_for_all = tiles_only(gate)

    def received() -> list[Received]:
        return [one for one in site.received if one.path.endswith(".png")]

    workers = start(fleet, site, RATE)
    fleet.await_until(lambda: gate.is_reached and len(fleet.known()) == 3)
    fleet.await_until(lambda: sum(one.leased for one in fleet.known()) > ON_THE_WAY)
    assert "requests on the way finish, no further one starts" in tell(fleet, monkeypatch, "pause", MAP)
    fleet.await_until(lambda: all(f"map '{MAP}' is paused since" in one.log for one in workers))
    before = len(received())
    gate.open()
    # For longer than a lease.
    quiet = time.time() + 1.5 * LEASE
    fleet.await_until(lambda: time.time() > quiet)
    paused = len(received())
    assert paused - before <= ON_THE_WAY
    assert sum(one.leased for one in fleet.known()) > 0
    tell(fleet, monkeypatch, "rate", MAP, "60/s")
    resumed, since = time.time(), time.time() - time.monotonic()
    assert tell(fleet, monkeypatch, "resume", MAP) == f"map '{MAP}' goes on\n"
    fleet.assert_ended_together(*workers)
    assert_harvested(fleet, small)
    assert set(Counter((one.method, one.path) for one in received()).values()) == {1}
    given = [start for one in workers for start in given_starts(one.log, MAP) if start > resumed]
    after = [one.time + since for one in received()[paused:]]
    # As told: at its own rate no two would be so close to each other.
    assert min(gaps_between(given)) == pytest.approx(1 / 60, rel=0.01)
    # Also those have a turn again that were leased ahead of the pause, by whichever worker.
    assert len(given) >= len(after) > 0
    assert all(moment > start - EARLY for moment, start in zip(after, sorted(given), strict=False))


def test_all_are_killed_while_the_map_is_paused_and_the_next_one_goes_on_with_what_was_pushed(
    fleet: Fleet, small: Rendering, nginx: Callable[..., Nginx], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = nginx(small.folder)
    workers = started(fleet, server)
    tell(fleet, monkeypatch, "pause", MAP)
    fleet.await_until(lambda: all(f"map '{MAP}' is paused since" in one.log for one in workers))
    path = max(path for path in small.paths() if path.count("/") == small.depth)
    _, zoom, x, y = small.tile(path)
    tell(fleet, monkeypatch, "push", MAP, f"{zoom}_{x}_{y}")
    for worker in workers:
        worker.kill()
    before, killed = len(starts(server)), time.time()
    last = fleet.start(command=HARVEST)
    fleet.await_until(lambda: f"map '{MAP}' is paused since" in last.log)
    # Until the leases of those that were killed have ended.
    fleet.await_until(lambda: time.time() > killed + 2 * LEASE)
    paused = len(starts(server))
    assert paused - before <= ON_THE_WAY
    tell(fleet, monkeypatch, "rate", MAP, f"{RATE}/s")
    tell(fleet, monkeypatch, "resume", MAP)
    fleet.await_ends(last)
    assert last.status == 0
    images = small.images()
    assert {one.tile: one.sha1 for one in records(fleet).versions} == {
        tile: sha1(image).hexdigest() for tile, image in images.items()
    }
    later = [line for line in server.log() if is_tile(line)][paused:]
    # Before it there may be what was leased already when it was pushed.
    assert f"/{small.layer}{path}.png" in {line.path for line in later[:RATE]}


def test_what_is_pushed_while_three_work_is_asked_soon_and_once(
    fleet: Fleet,
    small: Rendering,
    misbehaving: Callable[[Path], Misbehaving],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site, gate = misbehaving(small.folder), Gate(60, keeps_all=True)
    # No harvest ends while the command starts, however long that takes.
    site.rule_for_all = tiles_only(gate)

    def received() -> list[tuple[str, str, str]]:
        tiles = [one for one in site.received if one.path.endswith(".png")]
        return [(one.headers["User-Agent"], one.method, one.path) for one in tiles]

    fleet.settings |= SETTINGS
    fleet.describe(site.url, requests_per_second=RATE)
    workers = [fleet.start("-s", f"USER_AGENT={name}") for name in ("one", "two", "three")]
    path = min(path for path in small.paths() if path.count("/") == 1)
    address = f"/{small.layer}{path}.png"
    fleet.await_until(lambda: gate.is_reached and len([one for one in fleet.known() if one.leased]) == 3)
    before = received()
    assert address in [path for _, method, path in before if method == "GET"]
    _, zoom, x, y = small.tile(path)
    tell(fleet, monkeypatch, "push", MAP, f"{zoom}_{x}_{y}")
    first = sum(one.leased for one in fleet.known()) + fleet.counts().pending[Lane.PLUS]
    told = len(received())
    gate.open()
    fleet.assert_ended_together(*workers)
    tiles = received()
    looks = [place for place, (_, *asked) in enumerate(tiles) if asked == ["HEAD", address]]
    assert [place < len(before) for place in looks] == [True, False]
    asked_by = [name for name, *_ in tiles[told : looks[1] + 1]]
    # Before it, its worker asks for what was leased or waited in its lane when it was pushed. What the others
    # ask for meanwhile does not count: they go on even if that worker stands still.
    assert asked_by.count(asked_by[-1]) <= min(first, RATE)


def test_all_end_when_the_map_is_stopped_and_its_next_harvest_continues(
    fleet: Fleet, small: Rendering, nginx: Callable[..., Nginx], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while it is paused."""
    server = nginx(small.folder)
    workers = started(fleet, server)
    tell(fleet, monkeypatch, "pause", MAP)
    fleet.await_until(lambda: all(f"map '{MAP}' is paused since" in one.log for one in workers))
    assert f"map '{MAP}' is stopping" in tell(fleet, monkeypatch, "stop", MAP)
    fleet.assert_ended_together(*workers, status=1)
    assert all("run it again to continue" in one.log for one in workers)
    tell(fleet, monkeypatch, "resume", MAP)
    fleet.describe(server.url, requests_per_second=RATE)
    last = fleet.start(command=HARVEST)
    fleet.await_ends(last)
    assert last.status == 0
    assert_harvested(fleet, small)
    assert set(asked(server).values()) == {1}
