"""The project on a real scrapyd: deployed from a fresh clone, scheduled, cancelled, continued."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.project import ROOT, Project
from tests.fleet.workers import await_until
from tests.servers.misbehaving import Misbehaving, misbehaving
from tests.servers.nginx import nginx
from tests.servers.published import published
from tests.servers.rules import Gate
from tests.servers.scrapyd import PASSWORD, USER, Scrapyd, scrapyd

QUICK: Final = "quick"
SLOW: Final = "slow"
"""The map whose harvest is cancelled."""
DAY: Final = "2016-10-06"
AGENT: Final = "TileHarvest as it was deployed"
"""Only the deployed egg says so."""


@dataclass(frozen=True, slots=True)
class Host:
    """A scrapyd with the project on it, and the user's maps and data there."""

    scrapyd: Scrapyd
    project: Project
    slow_site: Misbehaving


@pytest.fixture(scope="module")
def host(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("scrapyd")
    project = Project(folder)
    places = {"TILEHARVEST_MAPS": str(project.maps_file), "TILEHARVEST_DATA": str(project.data)}
    clone = cloned(folder / "clone")
    quick, slow = (
        published(shared_maps, "alexjj", version, folder / f"site-{version}") for version in (1, 2)
    )
    with nginx(quick) as quick_site, misbehaving(slow) as slow_site, scrapyd(places) as running:
        project.add_map(QUICK, quick_site.url)
        project.add_map(SLOW, slow_site.url, concurrency=1)
        deploy(clone, running)
        yield Host(running, project, slow_site)


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


def test_a_cancelled_job_gives_all_leases_back_and_continues_without_asking_twice(host: Host) -> None:
    """Two maps are scheduled; one is cancelled in the middle, and scheduled again."""
    host.slow_site.rule_for_all = gate = Gate(30, keeps_all=True)
    quick, slow = schedule(host, QUICK), schedule(host, SLOW)
    await_until(lambda: gate.is_reached)
    host.scrapyd.cancel(slow)
    host.slow_site.rule_for_all = None
    gate.open()
    cancelled = host.scrapyd.await_end(slow)
    assert "run it again to continue" in cancelled
    assert "Spider closed (shutdown)" in cancelled
    assert "Traceback" not in cancelled
    left = json.loads(host.scrapyd.run("queue", SLOW, "--json"))
    assert (left["leased"], left["left"] > 0) == (0, True)
    assert json.loads(host.scrapyd.run("harvests", SLOW, "--json"))[0]["stopped"] == "Ctrl-C or SIGTERM"
    continued = host.scrapyd.await_end(schedule(host, SLOW))
    assert f"continuing the harvest of map '{SLOW}'" in continued
    assert "Spider closed (finished)" in continued
    assert "Spider closed (finished)" in host.scrapyd.await_end(quick)
    assert {request.headers["User-Agent"] for request in host.slow_site.received} == {AGENT}
    beside = ("/robots.txt", "/overviewerConfig.js")
    asked = Counter((one.method, one.path) for one in host.slow_site.received if one.path not in beside)
    assert set(asked.values()) == {1}
