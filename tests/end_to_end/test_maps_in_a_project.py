"""The spiders of maps in another Scrapy project, which has the add-on and our commands."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

from tests.end_to_end.forking import ROOT
from tests.servers.nginx import Nginx
from tileharvest.demo.publication import publish

_OWN: Final = 'CONCURRENT_REQUESTS = 3\nUSER_AGENT = "quotes (+http://quotes.example.net)"\n'


def test_a_map_is_harvested_with_the_settings_of_the_project(
    tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    publish(1, date(2026, 11, 18), tmp_path / "site")
    server = nginx(tmp_path / "site")
    project = tmp_path / "project"
    shutil.copytree(
        ROOT / "examples" / "quotes", project, ignore=shutil.ignore_patterns("data", "__pycache__")
    )
    with (project / "quotes" / "settings.py").open("a", encoding="utf-8") as settings:
        settings.write(_OWN)
    (project / "maps.toml").write_text(f'[m]\nurl = "{server.url}/"\ncontact = "me@example.net"\n')
    ended = run(project, "crawl", "overviewer", "-a", "map=m")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "'CONCURRENT_REQUESTS': 3" in ended.stderr
    agents = {line.agent for line in server.log()}
    assert agents == {"quotes (+http://quotes.example.net) (+me@example.net)"}
    # The commands know the spiders of maps, whether or not the project has the add-on.
    assert "map 'm' is already harvested" in run(project, "harvest", "m", "-s", "ADDONS={}").stdout


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scrapy", *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "quotes.settings"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
