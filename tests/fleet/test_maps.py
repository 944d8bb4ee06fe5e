"""Several workers and several maps: each map is one worker's, until that is killed."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha1
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.bad_input.small_site import PATHS, SmallSite, publish
from tests.fleet.workers import Fleet, Worker
from tests.servers.misbehaving import Misbehaving
from tests.servers.rules import Gate, tiles_only

MAPS: Final = ("north", "east", "south", "west")
MANY: Final = tuple(f"map-{number}" for number in range(20))
"""Kills come at random moments. `tests/crash` kills a single worker at every step of what it writes to
SQLite. In Redis a script is one step, and in PostgreSQL a transaction."""
LEASE: Final = 3
"""Seconds: so long is a killed worker's what it had."""
SHARED: Final = '[hosts."127.0.0.1"]\nconcurrency = 64\n'


@pytest.fixture
def files(tmp_path: Path) -> SmallSite:
    return publish(tmp_path / "site")


@pytest.fixture
def site(files: SmallSite, misbehaving: Callable[[Path], Misbehaving]) -> Misbehaving:
    return misbehaving(files.folder)


def describe(fleet: Fleet, names: Sequence[str], site: Misbehaving, **keys: Any) -> None:
    fleet.project.maps_file.write_text(SHARED)
    for name in names:
        fleet.project.add_map(name, f"{site.url}/", **keys)


def run(fleet: Fleet, *arguments: str) -> Worker:
    return fleet.start(*arguments, command=("run",), day=None)


def at_work(fleet: Fleet) -> dict[str, list[int]]:
    """The processes at each map, as `scrapy workers` shows them."""
    found: dict[str, list[int]] = {}
    for one in json.loads(fleet.project.scrapy("workers", "--json").stdout):
        if one["segment"]:
            found.setdefault(one["map"], []).append(one["pid"])
    return found


def finished(fleet: Fleet) -> Counter[str]:
    """How many harvests of each map are finished."""
    if not fleet.project.database.exists():
        return Counter()
    query = "SELECT maps.name FROM maps JOIN harvests ON harvests.map = maps.id WHERE reason = 'finished'"
    return Counter(name for (name,) in fleet.project.query(query))


def assert_histories(fleet: Fleet, names: Sequence[str], files: SmallSite) -> None:
    """Each map has what one undisturbed harvest of it finds: every tile once, and one harvest."""
    versions = fleet.project.query(
        "SELECT maps.name, versions.sha1 FROM versions JOIN layers ON layers.id = versions.layer"
        " JOIN maps ON maps.id = layers.map ORDER BY maps.name, versions.sha1"
    )
    images = sorted(files.sha1(path) for path in PATHS)
    assert versions == [(name, image) for name in sorted(names) for image in images]
    assert finished(fleet) == dict.fromkeys(names, 1)
    assert fleet.project.query("SELECT count(*) FROM harvests") == [(len(names),)]
    counted = fleet.project.query("SELECT DISTINCT outcome, tiles FROM harvest_counts")
    assert counted == [("add", len(PATHS))]
    stored = fleet.project.stored()
    assert sorted(sha1(body).hexdigest() for name, body in stored.items() if "/." not in name) == images


@pytest.fixture(autouse=True)
def _in_redis(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", fleet.redis_url)


def test_each_map_is_one_workers(fleet: Fleet, site: Misbehaving, files: SmallSite) -> None:
    gate = Gate(keeps_all=True)
    site.rule_for_all = tiles_only(gate)
    # With one request at a time there is no room for a second worker.
    describe(fleet, MAPS, site, concurrency=1)
    workers = [run(fleet, "--at-once", "2") for _ in range(3)]
    fleet.await_until(lambda: len(at_work(fleet)) == len(MAPS))
    idle = [worker for worker in workers if "what is due is at other workers" in worker.log]
    held = at_work(fleet)
    assert all(len(pids) == 1 for pids in held.values()), held
    assert max(Counter(pid for pids in held.values() for pid in pids).values()) <= 2
    assert not {worker.process.pid for worker in idle} & {pid for pids in held.values() for pid in pids}
    fleet.await_until(lambda: gate.is_reached)
    site.rule_for_all = None
    gate.open()
    fleet.await_until(lambda: finished(fleet) == dict.fromkeys(MAPS, 1))
    assert_histories(fleet, MAPS, files)
    fleet.await_until(lambda: Counter(lines(workers)) == dict.fromkeys(MAPS, 1))


def lines(workers: Sequence[Worker]) -> list[str]:
    """The maps of which the workers have said that they are done."""
    said = [line for worker in workers for line in worker.log.splitlines() if ": done; " in line]
    return [line.partition(",")[0] for line in said]


def test_a_worker_with_nothing_to_do_joins_where_no_rate_is_the_limit(
    fleet: Fleet, site: Misbehaving, files: SmallSite
) -> None:
    gate = Gate(keeps_all=True)
    site.rule_for_all = tiles_only(gate)
    describe(fleet, MAPS[:1], site, concurrency=8)
    for _ in range(2):
        run(fleet)
    fleet.await_until(lambda: gate.is_reached and len(at_work(fleet).get(MAPS[0], ())) == 2)
    site.rule_for_all = None
    gate.open()
    fleet.await_until(lambda: finished(fleet) == {MAPS[0]: 1})
    assert_histories(fleet, MAPS[:1], files)
