"""The published folders of three days, looked at as files, and the prediction of what a visitor finds."""

from __future__ import annotations

import io
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from PIL import Image

from tileharvest.demo.prediction import predicted_outcomes
from tileharvest.demo.publication import publish
from tileharvest.demo.world import World

if TYPE_CHECKING:
    from pathlib import Path

FIRST_DAY: Final = date(2026, 11, 18)
MIDNIGHT: Final = int(datetime(2026, 11, 18, tzinfo=UTC).timestamp())
DEPTHS: Final = (3, 3, 4)
MOVED: Final = {"0": "03", "1": "12", "2": "21", "3": "30"}
"""The places to which Overviewer's `tileset.py` moves the first level when a map grows."""


class File(NamedTuple):
    content: bytes
    modified: int
    inode: int


Snapshot = dict[str, File]
"""The files of the layer by quadtree digits: `031` for `0/3/1.png`; `base` for the whole map."""


def snapshot(folder: Path) -> Snapshot:
    found = {}
    for file in (folder / "world-day").rglob("*.png"):
        digits = PurePosixPath(file.relative_to(folder / "world-day")).with_suffix("").parts
        found["".join(digits)] = File(file.read_bytes(), int(file.stat().st_mtime), file.stat().st_ino)
    return found


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[Snapshot]:
    """The layer on each of the three days, each published over the one before."""
    folder = tmp_path_factory.mktemp("published")
    snapshots = []
    for day in (1, 2, 3):
        publish(World(), day, FIRST_DAY, folder)
        snapshots.append(snapshot(folder))
    return snapshots


def test_every_parent_is_composed_of_its_children_and_as_new_as_the_newest(days: list[Snapshot]) -> None:
    for there in days:
        for path, file in there.items():
            below = {digit: there.get(path.replace("base", "") + digit) for digit in "0123"}
            if any(below.values()):
                composed = Image.new("RGBA", (384, 384))
                for digit, child in below.items():
                    if child is not None:
                        part = Image.open(io.BytesIO(child.content)).reduce(2)
                        composed.paste(part, (int(digit) % 2 * 192, int(digit) // 2 * 192))
                assert Image.open(io.BytesIO(file.content)).tobytes() == composed.tobytes()
                assert file.modified == max(child.modified for child in below.values() if child)


def test_when_the_map_grows_files_move_and_keep_their_times(days: list[Snapshot]) -> None:
    before = {MOVED[path[0]] + path[1:]: file for path, file in days[1].items() if path != "base"}
    same = [path for path in before.keys() & days[2].keys() if before[path].content == days[2][path].content]
    assert len(same) > 20
    assert {path for path in same if before[path].modified == days[2][path].modified}
    assert {file.modified - MIDNIGHT for file in days[2].values()} == {0, 86_400, 2 * 86_400}


def test_a_new_day_replaces_only_what_differs(days: list[Snapshot], tmp_path: Path) -> None:
    for path in days[0].keys() & days[1].keys():
        one, other = days[0][path], days[1][path]
        assert (one.inode != other.inode) == (one[:2] != other[:2])
    publish(World(), 3, FIRST_DAY, tmp_path)
    (tmp_path / "index.html").write_text("mine")
    at_once = snapshot(tmp_path)
    assert {path: file[:2] for path, file in at_once.items()} == {p: file[:2] for p, file in days[2].items()}
    publish(World(), 3, FIRST_DAY, tmp_path)
    assert snapshot(tmp_path) == at_once
    assert (tmp_path / "index.html").read_text() == "mine"


def harvested(days: list[Snapshot]) -> list[dict[str, int]]:
    """Returns the outcomes of each day for a visitor who walks the folders and remembers them path by path.
    The remembered paths move when the map grows."""
    memory: dict[str, File | None] = {}
    counted = []
    for there, depth, before in zip(days, DEPTHS, (3, *DEPTHS), strict=False):
        if depth > before:
            memory = {MOVED[path[0]] + path[1:]: file for path, file in memory.items()}
        # Times prove nothing while there is only one.
        prunes = len({file.modified for file in memory.values() if file is not None}) > 1
        found: dict[str, str] = {}
        pending = list("0123")
        while pending:
            path = pending.pop()
            found[path] = word(there.get(path), memory.get(path))
            if path in there and len(path) < depth and not (prunes and found[path] == "ign"):
                pending += [path + digit for digit in "0123"]
        for path in [path for path, file in memory.items() if file is not None and path not in found]:
            is_below = any(found.get(path[:length]) == "ign" for length in range(1, len(path)))
            found[path] = "skip" if prunes and is_below else word(there.get(path), memory[path])
        memory |= {path: there.get(path) for path, said in found.items() if said not in ("404", "skip")}
        counted.append(dict(Counter(found.values())))
    return counted


def word(now: File | None, last: File | None) -> str:
    if now is None:
        return "404" if last is None else "gone"
    if last is None:
        return "add"
    if (now.modified, len(now.content)) == (last.modified, len(last.content)):
        return "ign"
    return "nMod" if now.content == last.content else "upd"


def test_the_prediction_is_what_a_walk_over_the_folders_finds(days: list[Snapshot]) -> None:
    predicted = [{str(one): n for one, n in predicted_outcomes(World(), day).items()} for day in (1, 2, 3)]
    assert predicted == harvested(days)
    assert {one for day in predicted for one in day} == {"404", "ign", "skip", "nMod", "upd", "add", "gone"}


@pytest.mark.parametrize("day", [0, 4])
def test_a_day_that_the_world_does_not_have_is_refused(day: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"days 1 to 3, not {day}"):
        publish(World(), day, FIRST_DAY, tmp_path)
    with pytest.raises(ValueError, match="days 1 to 3"):
        predicted_outcomes(World(), day)
