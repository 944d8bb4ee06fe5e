"""The published folders of three days, looked at as files."""

from datetime import date
from pathlib import Path
from typing import Final

import pytest

from tileharvest.demo.forms import FORMS
from tileharvest.demo.publication import publish
from tileharvest.demo.pyramid import changes

FIRST_DAY: Final = date(2026, 11, 18)
DEPTHS: Final = (3, 3, 4)
MOVED: Final = {"0": "03", "1": "12", "2": "21", "3": "30"}
"""The places to which Overviewer's `tileset.py` moves the first level when a map grows."""

Snapshot = dict[str, tuple[bytes, float, int]]
"""Content, time and inode of the layer's files, by their digits: `031` for `0/3/1.png`; `base` is the whole
map."""


def snapshot(folder: Path) -> Snapshot:
    found = {}
    for file in (folder / "world-day").rglob("*.png"):
        digits = "".join(file.relative_to(folder / "world-day").with_suffix("").parts)
        found[digits] = file.read_bytes(), file.stat().st_mtime, file.stat().st_ino
    return found


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[Snapshot]:
    """The layer on each of the three days, each published over the one before."""
    folder = tmp_path_factory.mktemp("published")
    snapshots = []
    for day in (1, 2, 3):
        publish(day, FIRST_DAY, folder)
        snapshots.append(snapshot(folder))
    return snapshots


def test_a_new_day_replaces_only_what_differs(days: list[Snapshot]) -> None:
    pairs = [(days[0][path], days[1][path]) for path in days[0].keys() & days[1].keys()]
    assert all((one[2] != other[2]) == (one[:2] != other[:2]) for one, other in pairs)
    # What looks the same was drawn again only where its chunks were saved again.
    assert 0 < sum(one == other for one, other in pairs) < sum(one[0] == other[0] for one, other in pairs)


def test_the_predicted_changes_are_those_of_the_files(days: list[Snapshot]) -> None:
    before: dict[str, bytes] = {}
    for day, there in enumerate(days, 1):
        if DEPTHS[day - 1] > DEPTHS[max(0, day - 2)]:
            before = {MOVED[path[0]] + path[1:]: content for path, content in before.items()}
        now = {path: file[0] for path, file in there.items() if path != "base"}
        same = sum(before[path] == now[path] for path in before.keys() & now.keys())
        assert changes(day, FORMS["overviewer"].cut) == {
            "new": len(now.keys() - before.keys()),
            "changed": len(now.keys() & before.keys()) - same,
            "gone": len(before.keys() - now.keys()),
            "same": same,
        }
        before = now
