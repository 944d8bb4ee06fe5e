"""Several workers and several maps: each map is one worker's, or is shared where no rate is the limit."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.bad_input.small_site import PATHS, publish
from tests.fleet.workers import Fleet, Worker
from tests.servers.misbehaving import Misbehaving
from tests.servers.rules import Gate, tiles_only

MAPS: Final = ("north", "east", "south", "west")


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


@pytest.mark.parametrize(
    ("names", "concurrency"), [(MAPS, 1), (MAPS[:1], 8)], ids=["each map is one worker's", "a map is shared"]
)
def test_workers_share_maps_and_join_where_there_is_room(
    fleet: Fleet,
    misbehaving: Callable[[Path], Misbehaving],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...],
    concurrency: int,
) -> None:
    """With one request at a time a map has no room for a second worker."""
    monkeypatch.setenv("REDIS_URL", fleet.redis_url)
    files, gate = publish(tmp_path / "site"), Gate(keeps_all=True)
    site = misbehaving(files.folder)
    site.rule_for_all = tiles_only(gate)
    fleet.project.maps_file.write_text('[hosts."127.0.0.1"]\nconcurrency = 64\n')
    for name in names:
        fleet.project.add_map(name, f"{site.url}/", concurrency=concurrency)
    workers = [run(fleet, "--at-once", "2") for _ in range(3 if len(names) > 1 else 2)]
    if len(names) > 1:
        fleet.await_until(lambda: len(at_work(fleet)) == len(names))
        held = [pid for pids in at_work(fleet).values() for pid in pids]
        assert len(held) == len(names)
        assert max(Counter(held).values()) <= 2
        idle = {one.process.pid for one in workers if "what is due is at other workers" in one.log}
        assert not idle & set(held)
    else:
        fleet.await_until(lambda: len(at_work(fleet).get(names[0], ())) == 2)
    fleet.await_until(lambda: gate.is_reached)
    gate.open()
    fleet.await_until(lambda: finished(fleet) == dict.fromkeys(names, 1))
    # Each map has what one undisturbed harvest finds: every tile once, and one harvest.
    versions = fleet.project.query(
        "SELECT maps.name, versions.sha1 FROM versions JOIN layers ON layers.id = versions.layer"
        " JOIN maps ON maps.id = layers.map ORDER BY maps.name, versions.sha1"
    )
    images = sorted(files.sha1(path) for path in PATHS)
    assert versions == [(name, image) for name in sorted(names) for image in images]
    assert fleet.project.query("SELECT count(*) FROM harvests") == [(len(names),)]
    assert fleet.project.query("SELECT DISTINCT outcome, tiles FROM harvest_counts") == [("add", len(PATHS))]
