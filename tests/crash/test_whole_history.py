"""`make torture` finds each row and cost that is not as it should be, and says what it needs to begin."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.fleet.workers import Worker
from tests.middlewares.making import DAY, FIRST_LEVEL, added, remember
from tests.torture.__main__ import main
from tests.torture.rounds import wrong_costs
from tests.torture.stages import DAY as DISTURBED
from tests.torture.stages import Left
from tests.torture.whole_history import differences, whole_history

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.whole_history import Rows


def history(folder: Path, change: str = "") -> dict[str, Rows]:
    """Returns a history of two harvests of one tile each, after a statement has changed it."""
    folder.mkdir()
    for number, tile in enumerate(FIRST_LEVEL[:2]):
        asyncio.run(remember(folder, added(tile), day=DAY.replace(day=1 + number)))
    file = folder / "history.sqlite"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(change)
    return whole_history(f"sqlite:///{file}")


@pytest.mark.parametrize(
    ("change", "places"),
    [
        ("UPDATE harvests SET requests = 17, seconds = 3", []),
        ("UPDATE versions SET sha1 = 'x' WHERE id = 2", ["versions.sha1"]),
        ("DELETE FROM harvest_counts WHERE harvest = 1", ["harvest_counts: missing"]),
        ("UPDATE tiles SET version = 1", ["tiles.version"]),
        ("UPDATE layers SET name = 'other'", ["layers: missing", "layers: too much"]),
    ],
    ids=["the run alone", "a value", "a row", "a row that is meant", "a name"],
)
def test_two_histories_differ_where_a_row_does(tmp_path: Path, change: str, places: list[str]) -> None:
    plain, changed = history(tmp_path / "plain"), history(tmp_path / "changed", change)
    found = {one.place for one in differences(changed, plain)}
    assert found >= set(places)
    assert bool(found) == bool(places)


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ((4, 60), []),
        ((5, 61), []),
        ((3, 60), ["harvests.requests"]),
        ((4, 59), ["harvests.received_bytes"]),
    ],
    ids=["exactly", "more", "too little asked", "too little received"],
)
def test_a_disturbed_harvest_counts_at_least_what_its_results_have_cost(
    told: tuple[int, int], wrong: list[str]
) -> None:
    row = dict(zip(("requests", "received_bytes"), told, strict=True), segment=DISTURBED)
    counts = {("map", DISTURBED, outcome): {"tiles": tiles} for outcome, tiles in (("add", 4), ("skip", 7))}
    versions = {(tile, DISTURBED): {"size": 30} for tile in ("one", "other")}
    versions[("older", "2024-01-01")] = {"size": 500}
    history = {"harvests": {("map",): row}, "harvest_counts": counts, "versions": versions}
    found = wrong_costs(Left(history, {}, 11, 10, 500))
    assert [line.partition(":")[0] for line in found] == wrong


@pytest.mark.parametrize("missing", ["maps", "root", "folder"])
def test_what_torture_needs_is_said_in_one_line_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    nowhere = tmp_path / "nowhere"
    monkeypatch.setattr("tests.torture.__main__._MAPS", nowhere if missing == "maps" else tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 1000 if missing == "root" else 0)
    assert main(["--folder", str(nowhere if missing == "folder" else tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert {"maps": "no real maps", "root": "sudo", "folder": f"--folder {nowhere}"}[missing] in said
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_has_ended_before_it_is_to_be_stopped_is_told_from_one_that_stands_still(
    tmp_path: Path,
) -> None:
    for command, stands_still in ((["true"], False), (["sleep", "600"], True)):
        with subprocess.Popen(command) as process:
            if not stands_still:
                process.wait()
            assert Worker(process, tmp_path / "log").freeze() is stands_still
            process.kill()
