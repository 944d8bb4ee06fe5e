"""The project on a real scrapyd: deployed from a fresh clone, scheduled, cancelled, continued."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.end_to_end.project import ROOT, Project
from tests.servers.misbehaving import misbehaving
from tests.servers.nginx import nginx
from tests.servers.published import published
from tests.servers.scrapyd import PASSWORD, PROJECT, USER, Scrapyd, scrapyd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

    from tests.servers.misbehaving import Exchange, Misbehaving

QUICK: Final = "quick"
SLOW: Final = "slow"
"""The map whose harvest is cancelled."""
DAY: Final = "2016-10-06"
AGENT: Final = "TileHarvest as it was deployed"
"""Only the deployed egg says so."""


class Gate:
    """A rule for a site: from a moment on it owes all answers, until it is opened."""

    def __init__(self) -> None:
        self._left = 0
        self._shut = threading.Event()
        self._open = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def shut_after(self, requests: int) -> None:
        self._shut.clear()
        self._open.clear()
        self._left = requests

    def await_shut(self) -> None:
        assert self._shut.wait(60.0), "the site was not asked as often as that"

    def open(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._open.set)

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        self._loop = asyncio.get_running_loop()
        self._left -= 1
        if self._left < 0:
            self._shut.set()
            await self._open.wait()
        return await exchange.send_properly()


@dataclass(frozen=True, slots=True)
class Host:
    """A scrapyd with the project on it, and the user's maps and data there."""

    scrapyd: Scrapyd
    project: Project
    clone: Path
    slow_site: Misbehaving
    gate: Gate


@dataclass(frozen=True, slots=True)
class Jobs:
    """What was told by the jobs of one day, each in its log."""

    quick: str
    quick_again: str
    cancelled: str
    left: dict[str, int]
    """What `scrapy queue` counts after that."""
    continued: str


@pytest.fixture(scope="module")
def host(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("scrapyd")
    project, gate = Project(folder), Gate()
    places = {"TILEHARVEST_MAPS": str(project.maps_file), "TILEHARVEST_DATA": str(project.data)}
    clone = cloned(folder / "clone")
    quick, slow = (
        published(shared_maps, "alexjj", version, folder / f"site-{version}") for version in (1, 2)
    )
    with nginx(quick) as quick_site, misbehaving(slow) as slow_site, scrapyd(places) as running:
        slow_site.rule_for_all = gate
        gate.shut_after(sys.maxsize)
        project.add_map(QUICK, quick_site.url)
        project.add_map(SLOW, slow_site.url, concurrency=1)
        deploy(clone, running)
        yield Host(running, project, clone, slow_site, gate)


@pytest.fixture(scope="module")
def jobs(host: Host) -> Jobs:
    """Two maps are scheduled; one is cancelled in the middle, and scheduled again."""
    host.gate.shut_after(30)
    quick, slow = schedule(host, QUICK), schedule(host, SLOW)
    host.gate.await_shut()
    host.scrapyd.cancel(slow)
    host.gate.open()
    cancelled = host.scrapyd.await_end(slow)
    left = json.loads(host.scrapyd.run("queue", SLOW, "--json"))
    host.gate.shut_after(sys.maxsize)
    last = schedule(host, SLOW), schedule(host, QUICK)
    continued, again = (host.scrapyd.await_end(job) for job in last)
    return Jobs(host.scrapyd.await_end(quick), again, cancelled, left, continued)


def schedule(host: Host, name: str) -> str:
    return host.scrapyd.schedule(name, day=DAY)


def cloned(folder: Path) -> Path:
    """What `git clone` gives, as far as deploying needs it, with a mark that tells it from this checkout."""
    hidden = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tileharvest", folder / "tileharvest", ignore=hidden)
    for name in ("scrapy.cfg", "setup.py", "pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, folder)
    with (folder / "tileharvest" / "settings.py").open("a", encoding="utf-8") as settings:
        settings.write(f"\nUSER_AGENT = {AGENT!r}\n")
    return folder


def deploy(clone: Path, server: Scrapyd) -> None:
    """With the address and the password in the user's own scrapy.cfg, as docs/scrapyd.md has it."""
    own = clone.with_name("configuration")
    own.mkdir()
    target = ("[deploy:server]", f"url = {server.url}", f"username = {USER}", f"password = {PASSWORD}")
    (own / "scrapy.cfg").write_text("\n".join(target), encoding="utf-8")
    done = subprocess.run(
        [Path(sys.executable).with_name("scrapyd-deploy"), "server"],
        cwd=clone,
        env=os.environ | {"XDG_CONFIG_HOME": str(own)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["status"] == "ok", done.stdout


def files(folder: Path) -> set[str]:
    found = (file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(folder).as_posix() for file in found}


def recorded(project: Project) -> set[tuple[Any, ...]]:
    """Every version of every map, without the numbers that the database gave it."""
    columns = "maps.name, layers.name, zoom, x, y, day, sha1, extension, size, etag, last_modified"
    joined = "versions JOIN layers ON layers.id = versions.layer JOIN maps ON maps.id = layers.map"
    return set(project.query(f"SELECT {columns} FROM {joined}"))


def harvests(project: Project) -> list[tuple[Any, ...]]:
    named = "harvests JOIN maps ON maps.id = harvests.map"
    return project.query(f"SELECT name, segment, day, reason FROM {named} ORDER BY name")


def requests(host: Host) -> Counter[tuple[str, str]]:
    """What the slow site was asked about tiles, and how often."""
    asked = ((request.method, request.path) for request in host.slow_site.received)
    beside = ("/robots.txt", "/overviewerConfig.js")
    return Counter((method, path) for method, path in asked if path not in beside)


def test_the_egg_holds_every_file_of_the_program_and_nothing_else_but_its_bytecode(host: Host) -> None:
    (egg,) = (host.scrapyd.folder / "eggs" / PROJECT).iterdir()
    with zipfile.ZipFile(egg) as opened:
        held = {name for name in opened.namelist() if not re.search("^EGG-INFO/|/__pycache__/", name)}
    assert held == {f"tileharvest/{name}" for name in files(host.clone / "tileharvest")}


def test_nobody_gets_in_without_the_password(host: Host) -> None:
    assert host.scrapyd.ask("listjobs", password="guessed") == 401


def test_jobs_run_what_was_deployed(host: Host, jobs: Jobs) -> None:
    assert "Spider closed (finished)" in jobs.quick
    assert {request.headers["User-Agent"] for request in host.slow_site.received} == {AGENT}


def test_a_cancelled_job_ends_cleanly_with_all_leases_given_back(jobs: Jobs) -> None:
    assert "run it again to continue" in jobs.cancelled
    assert "Spider closed (shutdown)" in jobs.cancelled
    assert "Traceback" not in jobs.cancelled
    assert jobs.left["leased"] == 0
    assert jobs.left["left"] > 0


def test_a_cancelled_harvest_that_is_scheduled_again_continues_without_asking_twice(
    host: Host, jobs: Jobs
) -> None:
    assert f"continuing the harvest of map '{SLOW}'" in jobs.continued
    assert "Spider closed (finished)" in jobs.continued
    assert set(requests(host).values()) == {1}


def test_a_second_job_of_the_day_says_so_and_ends(jobs: Jobs) -> None:
    assert f"map '{QUICK}' is already harvested for {DAY}; the next segment begins" in jobs.quick_again
    assert "Spider closed (done)" in jobs.quick_again


@pytest.mark.usefixtures("jobs")
def test_the_history_is_the_one_that_scrapy_crawl_writes(host: Host, tmp_path: Path) -> None:
    direct = Project(tmp_path)
    with nginx(host.clone.with_name("site-1")) as quick, nginx(host.clone.with_name("site-2")) as slow:
        direct.add_map(QUICK, quick.url)
        direct.add_map(SLOW, slow.url)
        direct.crawl(QUICK, DAY)
        direct.crawl(SLOW, DAY)
    assert recorded(host.project) == recorded(direct)
    assert host.project.stored() == direct.stored()
    assert harvests(host.project) == harvests(direct)
    assert {row[3] for row in harvests(direct)} == {"finished"}
