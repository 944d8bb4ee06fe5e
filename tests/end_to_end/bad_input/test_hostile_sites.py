"""Sites that want to break us, one row each: how the harvest ends, in which line, and with how much memory.

All are harvested by one process, which is started as a user starts it, and later once more, when they are
healthy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    PATHS,
    SECOND_DAY,
    configuration,
    drawn,
    publish,
)
from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import Project
from tests.servers.misbehaving import Answer, misbehaving
from tests.tiles.test_images import webp_of
from tileharvest.errors import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

    from tests.servers.misbehaving import Exchange

MOST_MEMORY: Final = 300 * 1024
"""Kilobytes that the process may have had at any time."""
MEASURED: Final = """
import atexit, sys
def tell():
    # The kernel's other figure, ru_maxrss, begins with the memory of the process that started this one.
    peak = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    print("peak", *peak, file=sys.stderr)
atexit.register(tell)
from scrapy.cmdline import execute
execute()
"""
TILESET: Final = json.loads(configuration().partition("= ")[2].rstrip(";\n"))["tilesets"][0]


def told(tilesets: Any, **more: Any) -> bytes:
    said = {"CONST": {"tileSize": 48}, "tilesets": tilesets, **more}
    return f"var overviewerConfig = {json.dumps(said)};".encode()


class Row(NamedTuple):
    status: int
    line: str
    """A part of the line that says what is wrong."""
    config: bytes | None = None
    """What is sent in place of the configuration."""
    tile: bytes | None = None
    """What is sent in place of each tile."""
    location: str | None = None
    """Where the configuration leads to."""


TABLE: Final = {
    "deep": Row(5, "zoomLevels is 33", told([{**TILESET, "zoomLevels": 33}])),
    "bottomless": Row(5, "zoomLevels is 1000000000", told([{**TILESET, "zoomLevels": 10**9}])),
    "flat": Row(5, "CONST.tileSize is 0", told([TILESET]).replace(b'"tileSize": 48', b'"tileSize": 0')),
    "long-path": Row(5, "path is aaa", told([{**TILESET, "path": "a" * 1_000_000}])),
    "long-tag": Row(5, "map.cacheTag is aaa", told([TILESET], map={"cacheTag": "a" * 1_000_000})),
    "long-suffix": Row(5, "imgextension is aaa", told([{**TILESET, "imgextension": "a" * 1_000_000}])),
    "half": Row(5, "world is half", told([{**TILESET, "world": "half \ud800"}])),
    "no-time": Row(5, "last_rendertime is Infinity", told([{**TILESET, "last_rendertime": 1e300 * 1e10}])),
    "many": Row(5, "tilesets is ", told([{**TILESET, "path": f"p{number}"} for number in range(10_000)])),
    "empty-objects": Row(5, "values, and at most", b"var overviewerConfig = [" + b"{}," * 5_000_000 + b"{}]"),
    "nested": Row(5, "nested more than 100 deep", b"var overviewerConfig = " + b"[" * 100_000),
    "private": Row(5, "cannot be reached", location="http://169.254.169.254/overviewerConfig.js"),
    "webp": Row(3, "the image has 9,400 x 9,400 pixels", tile=webp_of(9_400, 9_400)),
    "larger-webp": Row(3, "the image has 13,300 x 13,300 pixels", tile=webp_of(13_300, 13_300)),
    "large-webp": Row(3, "the image has 1,000 x 1,000 pixels, and the tiles", tile=webp_of(1_000, 1_000)),
}


class Run(NamedTuple):
    reports: dict[str, dict[str, Any]]
    said: str
    peak: int
    """Kilobytes."""


def harvested(project: Project, day: str) -> Run:
    arguments = ("harvest", *TABLE, "-a", f"day={day}", "--json", "-s", "RETRY_TIMES=0")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments],
        cwd=ROOT,
        env=project.environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    *lines, peak = done.stderr.splitlines()
    reports = {report["map"]: report for report in json.loads(done.stdout)}
    return Run(reports, "\n".join(lines), int(peak.removeprefix("peak ")))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, Run, Project]]:
    """A day on which the sites are hostile, and one on which they are healthy."""
    folder = tmp_path_factory.mktemp("sites")
    site_folder = publish(folder / "site" / "healthy").folder
    for name in TABLE:
        shutil.copytree(site_folder, folder / "site" / name, copy_function=shutil.copy2)
    project = Project(folder)

    async def hostile(exchange: Exchange) -> web.StreamResponse:
        row = TABLE.get(exchange.path.split("/")[1])
        if row is None or not exchange.path.endswith((".js", ".png")):
            return await exchange.send_properly()
        is_config = exchange.path.endswith(".js")
        if is_config and row.location is not None:
            return await exchange.send(Answer(302, {"Location": row.location}))
        body = row.config if is_config else row.tile
        return await (exchange.send_properly() if body is None else exchange.send(Answer(200, {}, body)))

    with misbehaving(folder / "site") as site:
        for name in TABLE:
            project.add_map(name, f"{site.url}/{name}/")
        site.rule_for_all = hostile
        first = harvested(project, FIRST_DAY)
        site.rule_for_all = None
        yield first, harvested(project, SECOND_DAY), project


@pytest.mark.parametrize("name", TABLE)
def test_a_hostile_site_ends_with_its_status_and_one_line(runs: tuple[Run, Run, Project], name: str) -> None:
    report, row = runs[0].reports[name], TABLE[name]
    assert report["exit_status"] == row.status
    said = [line for line in runs[0].said.splitlines() if f"'{name}'" in line]
    (line,) = said
    assert row.line in line
    assert len(line) < 1000
    assert HIDDEN.search(line) is None


def test_none_of_them_makes_a_traceback_or_takes_much_memory(runs: tuple[Run, Run, Project]) -> None:
    assert "Traceback" not in runs[0].said
    assert len(runs[0].said.splitlines()) == len(TABLE) + 1
    assert runs[0].peak < MOST_MEMORY


def test_a_later_healthy_harvest_is_as_if_nothing_had_been(runs: tuple[Run, Run, Project]) -> None:
    _, second, project = runs
    assert [report["counts"] for report in second.reports.values()] == [{"add": len(PATHS)}] * len(TABLE)
    found = project.query("SELECT DISTINCT day, name FROM versions JOIN layers ON layers.id = versions.layer")
    assert found == [(SECOND_DAY, LAYER)]
    assert set(project.stored().values()) == {drawn(path) for path in PATHS}
