"""The recipes of docs/recipes.md and the nights of `examples/github-actions`, as they are written there.

Git and nginx of this computer take the place of GitHub's.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Final
from urllib.request import urlopen

import pytest
from scrapy.settings import Settings

from tests.end_to_end.bad_input.small_site import FIRST_DAY, SECOND_DAY, SmallSite, drawn, publish
from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import Project
from tests.servers.nginx import Nginx
from tests.servers.repositories import git
from tileharvest.maps.maps_file import load_maps
from tileharvest.politeness.settings import rules_for

RECIPES: Final = re.split(r"^## ", (ROOT / "docs/recipes.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
SECRET: Final = "Basic bmFtZTpwYXNzd29yZA=="
"""That of name:password, in Base64."""
EXAMPLE: Final = ROOT / "examples" / "github-actions"
WORKFLOW: Final = (EXAMPLE / ".github/workflows/harvest.yml").read_text(encoding="utf-8")


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


def night(origin: Path, folder: Path, day: str) -> subprocess.CompletedProcess[str]:
    """A run of the workflow: a fresh clone on a fresh computer, and its own step."""
    git(folder.parent, "clone", "--quiet", str(origin), folder.name)
    (step,) = re.findall(r"run: (\./nightly\.sh .*)", WORKFLOW)
    names = re.findall(r"GIT_\w+", WORKFLOW)
    return subprocess.run(
        [*step.split(), "--day", day],
        cwd=folder,
        env=os.environ
        | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        | dict.fromkeys(names, "harvest@example.net"),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def origin(tmp_path: Path, nginx: Callable[..., Nginx]) -> Path:
    """The repository of a person who has followed the page; its map is served from the folder `map`."""
    url = nginx(publish(tmp_path / "map").folder).url
    mine, bare = tmp_path / "mine", tmp_path / "origin.git"
    shutil.copytree(EXAMPLE, mine)
    entry = mine / "maps.toml"
    text = entry.read_text(encoding="utf-8")
    assert "https://map.example.net/world/" in text
    entry.write_text(text.replace("https://map.example.net/world/", f"{url}/"), encoding="utf-8")
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    git(mine, "init", "--quiet", "--initial-branch=main")
    git(mine, "add", "--all")
    person = ("-c", "user.name=a", "-c", "user.email=a@example.net")
    git(mine, *person, "commit", "--quiet", "--message=The map")
    git(mine, "push", "--quiet", str(bare), "main")
    return bare


def lists(site: Path) -> set[bytes]:
    return {file.read_bytes() for file in (site / "lists").rglob("*.js")}


def test_the_history_grows_from_night_to_night_and_pages_show_all_of_it(
    origin: Path, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    images = []
    for day in (FIRST_DAY, SECOND_DAY):
        done = night(origin, tmp_path / day, day)
        assert done.returncode == 0, done.stderr
        kept = git(origin, "ls-tree", "-r", "--name-only", "history").splitlines()
        assert {name.partition("/")[0] for name in kept} == {"history.sqlite", "tiles"}
        images.append({name for name in kept if name.startswith("tiles/")})
        SmallSite(tmp_path / "map").write("00", drawn("changed"))
    assert images[0] < images[1]
    assert git(origin, "rev-list", "--count", "history").strip() == "1"
    with urlopen(f"{nginx(tmp_path / SECOND_DAY / 'site').url}/index.html") as page:
        assert b"data-index" in page.read()
    assert lists(tmp_path / FIRST_DAY / "site") != lists(tmp_path / SECOND_DAY / "site")


def test_a_repository_that_cannot_be_asked_keeps_its_history(origin: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(origin), "night")
    git(tmp_path / "night", "remote", "set-url", "origin", str(tmp_path / "away.git"))
    command, folder = ["./nightly.sh", "my-server", "site"], tmp_path / "night"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, "nothing was harvested" in last) == (1, True)
    assert not (folder / "data").exists()
