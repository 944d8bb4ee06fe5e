"""The commands that show what the history has: on stdout, whole, as a table or as JSON."""

import json

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import ANTWORLD, Harvested
from tests.end_to_end.rendering import LAYER

URL = "http://map.example.net/"


@pytest.fixture(scope="module")
def told(antworld: list[Harvested], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """antworld after its four harvests, and a map that never was harvested."""
    project = Project(tmp_path_factory.mktemp("told"))
    project.adopt(antworld[-1].data)
    project.add_map(ANTWORLD, URL, note="the ants' own")
    project.add_map("asleep", f"{URL}asleep/", enabled=False)
    return project


def test_maps_as_json(told: Project, antworld: list[Harvested]) -> None:
    images = {image for harvested in antworld for image in harvested.images.values()}
    done = told.scrapy("maps", "--json")
    found = json.loads(done.stdout)
    # It depends on the present time.
    assert found[0].pop("due").endswith("+00:00")
    assert found == [
        {
            "map": ANTWORLD,
            "url": URL,
            "enabled": True,
            "paused": None,
            "note": "the ants' own",
            "due_because": "once a segment",
            "last_harvest": {"day": antworld[-1].day, "reason": "finished"},
            "walk": "full",
            "walk_reasons": {LAYER: f"the last full walk was on {antworld[-1].day}"},
            "tiles": len(antworld[-1].images),
            "versions": len(antworld[-1].versions),
            "bytes": sum(map(len, images)),
        },
        {
            "map": "asleep",
            "url": f"{URL}asleep/",
            "enabled": False,
            "paused": None,
            "note": "",
            "due": None,
            "due_because": None,
            "last_harvest": None,
            "walk": "full",
            "walk_reasons": {},
            "tiles": 0,
            "versions": 0,
            "bytes": 0,
        },
    ]
    assert done.stderr == ""


def test_maps_as_a_table(told: Project, antworld: list[Harvested]) -> None:
    last = antworld[-1]
    _, _, first, second, walk = told.scrapy("maps", "--why").stdout.splitlines()
    assert first.split()[:5] == [ANTWORLD, last.day, "finished", "full", str(len(last.images))]
    assert first.rstrip().endswith("the ants' own")
    assert second.startswith("asleep (not enabled)")
    assert walk == f"{ANTWORLD}: the next walk is full: the last full walk was on {last.day}"


def test_history_as_json_has_every_version_once(told: Project, antworld: list[Harvested]) -> None:
    shown = [
        (one["layer"], one["tile"], one["day"], one["sha1"], one["size"]) for one in told.history(ANTWORLD)
    ]
    assert sorted(shown) == sorted(
        (one.layer, f"{one.zoom}_{one.x}_{one.y}", one.day, one.sha1, one.size)
        for one in antworld[-1].versions
    )
    assert [row[2] for row in shown] == sorted(row[2] for row in shown)
