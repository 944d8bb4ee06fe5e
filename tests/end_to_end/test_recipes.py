"""The recipes of docs/recipes.md, as they are written there."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Final

from scrapy.settings import Settings

from tests.end_to_end.bad_input.small_site import FIRST_DAY, publish
from tests.end_to_end.project import Project
from tests.servers.nginx import Nginx
from tileharvest.maps.maps_file import load_maps
from tileharvest.politeness.settings import rules_for

ROOT: Final = Path(__file__).resolve().parents[2]
RECIPES: Final = re.split(r"^## ", (ROOT / "docs/recipes.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
SECRET: Final = "Basic bmFtZTpwYXNzd29yZA=="
"""That of name:password, in Base64."""


def blocks(title: str) -> list[str]:
    """The indented texts of a recipe."""
    (text,) = (part for part in RECIPES if part.startswith(f"{title}\n"))
    return [
        dedent(block) for block in re.findall(r"(?:^(?: {4}.*)?\n)+", text, re.MULTILINE) if block.strip()
    ]


def harvested(project: Project, folder: Path, url: str, **environment: str) -> None:
    """Adds the map of this address, and harvests it, in a folder with an environment of its own."""
    for words in (["add", "my-server", url], ["harvest", "my-server", "--day", FIRST_DAY]):
        done = subprocess.run(
            [sys.executable, "-m", "tileharvest", *words],
            cwd=folder,
            env={**project.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert len(project.versions()) == 20


def test_a_map_that_needs_a_login(project: Project, tmp_path: Path, nginx: Callable[..., Nginx]) -> None:
    refusing = f'if ($http_authorization != "{SECRET}") {{ return 401; }}'
    server = nginx(publish(tmp_path / "site").folder, location=refusing)
    configuration, settings, _ = blocks("A map that needs a login")
    (project.folder / "scrapy.cfg").write_text(configuration)
    (project.folder / "my_settings.py").write_text(settings)
    harvested(project, project.folder, server.url, MAP_LOGIN="name:password")


def test_through_a_proxy(project: Project, tmp_path: Path, nginx: Callable[..., Nginx]) -> None:
    """Nobody but the proxy knows the host."""
    refusing = f'if ($http_proxy_authorization != "{SECRET}") {{ return 407; }}'
    proxy = nginx(publish(tmp_path / "site").folder, location=refusing)
    lines = "\n".join(re.findall("export .*", "\n".join(blocks("Through a proxy"))))
    here = lines.replace("proxy.example.net:3128", f"127.0.0.1:{proxy.port}")
    shell = ["sh", "-c", f"{here}\nenv"]
    told = subprocess.run(shell, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    named = dict(re.findall(r"(https?_proxy)=(.*)", told.stdout))
    harvested(project, project.folder, "http://map.example.net/", **named)
    assert {one.host for one in proxy.log()} == {"map.example.net"}


def test_worlds_of_one_site_are_layers_and_those_in_folders_share_the_limits_of_their_host(
    project: Project,
) -> None:
    layers, folders = blocks("A map in several worlds")
    project.maps_file.write_text(layers + folders)
    maps = load_maps(project.maps_file)
    assert list(maps) == ["my-server", "overworld", "nether"]
    assert maps["my-server"].layers == ("minecraft_overworld", "minecraft_the_nether")
    settings = Settings({"TILEHARVEST_MAPS": str(project.maps_file)})
    for name in ("overworld", "nether"):
        _, of_host = rules_for(settings, maps[name]).limits_at("map.example.net")
        assert of_host.least == 0.2
