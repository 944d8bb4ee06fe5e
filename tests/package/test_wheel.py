"""The wheel: what is in it, and that it is a whole program in any folder."""

import json
import subprocess
import urllib.request
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

import pytest

from tests.package.conftest import ROOT, SUPPORTED, Installed
from tests.servers.nginx import nginx
from tileharvest.demo.__main__ import differences
from tileharvest.demo.forms import FORMS
from tileharvest.demo.publication import publish
from tileharvest.demo.pyramid import changes
from tileharvest.renderers.registry import RENDERERS

DAY: Final = date(2026, 11, 18)


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    files = {
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "tileharvest").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == files
    endings = {name.rpartition(".")[2] for name in packed}
    assert endings >= {"py", "lua", "js", "html", "json", "gz", "typed"}


@pytest.mark.parametrize("version", SUPPORTED)
def test_a_map_is_harvested_and_shown_in_any_folder(
    version: str, install: Callable[[str], Installed], tmp_path: Path
) -> None:
    """The whole program, where there is no checkout and no `scrapy.cfg`."""
    installed = install(version)
    folder = tmp_path / "folder"
    folder.mkdir()
    assert installed.run(folder, "tileharvest", "list").stdout.split() == sorted(RENDERERS)
    publish(1, DAY, tmp_path / "site")
    with nginx(tmp_path / "site") as server:
        (folder / "maps.toml").write_text(f'[small]\nurl = "{server.url}"\n', encoding="utf-8")
        done = installed.run(folder, "tileharvest", "harvest", "small", "-a", f"day={DAY}", "--json")
    (report,) = json.loads(done.stdout)
    assert differences(report["counts"], changes(1, FORMS["overviewer"].cut)) == []
    assert {file.name for file in folder.iterdir()} == {"maps.toml", "data"}
    with subprocess.Popen(
        [installed.python.with_name("tileharvest"), "serve", "--port", "0"],
        cwd=folder,
        env=installed.environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as viewer:
        assert viewer.stdout is not None
        address = viewer.stdout.readline().split()[4]
        try:
            parts = {"": "<html", "page/leaflet/leaflet.js": "Leaflet", "api/v1/maps": "small"}
            for path, part in parts.items():
                with urllib.request.urlopen(address + path) as answer:
                    assert part in answer.read().decode()
        finally:
            viewer.kill()


def test_scrapy_itself_has_the_commands_only_in_a_project(installed: Installed, tmp_path: Path) -> None:
    """docs/reference.md says so."""
    done = installed.run(tmp_path, "python", "-m", "scrapy", "harvest", "small", check=False)
    assert (done.returncode, "Unknown command: harvest" in done.stdout) == (2, True)


def test_the_settings_of_the_project_at_hand_hold(installed: Installed, tmp_path: Path) -> None:
    """From a folder below it, too."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = mine\n", encoding="utf-8")
    lines = ("from tileharvest.settings import *", "TILEHARVEST_MAPS = 'other.toml'")
    (tmp_path / "mine.py").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "below").mkdir()
    done = installed.run(tmp_path / "below", "tileharvest", "maps", check=False)
    assert f"there is no {tmp_path / 'other.toml'}" in done.stderr
