"""The nights of `examples/github-actions`, with git and nginx of this computer in place of GitHub's."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest

from tests.end_to_end.forking import ROOT
from tests.servers.nginx import Nginx
from tests.servers.published import published
from tests.servers.repositories import git

EXAMPLE: Final = ROOT / "examples" / "github-actions"
WORKFLOW: Final = (EXAMPLE / ".github/workflows/harvest.yml").read_text(encoding="utf-8")
NIGHTS: Final = ("2021-02-13", "2021-02-16")


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
def origin(tmp_path: Path, shared_maps: Path, nginx: Callable[..., Nginx]) -> Path:
    """The repository of a person who has followed the page; its map is served from the folder `map`."""
    url = nginx(published(shared_maps, "antworld", 1, tmp_path / "map")).url
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


def test_the_history_grows_from_night_to_night_and_pages_show_all_of_it(
    origin: Path, tmp_path: Path, shared_maps: Path, nginx: Callable[..., Nginx]
) -> None:
    images = []
    for number, day in enumerate(NIGHTS, 1):
        published(shared_maps, "antworld", number, tmp_path / "map")
        done = night(origin, tmp_path / f"night-{number}", day)
        assert done.returncode == 0, done.stderr
        kept = git(origin, "ls-tree", "-r", "--name-only", "history").splitlines()
        assert {name.partition("/")[0] for name in kept} == {"history.sqlite", "tiles"}
        images.append({name for name in kept if name.startswith("tiles/")})
    assert images[0] < images[1]
    assert git(origin, "rev-list", "--count", "history").strip() == "1"
    with urlopen(f"{nginx(tmp_path / 'night-2/site').url}/index.html") as page:
        assert b"data-index" in page.read()
    lists = (tmp_path / "night-2/site/lists").rglob("*.js")
    assert len(list(lists)) > len(list((tmp_path / "night-1/site/lists").rglob("*.js")))


def test_a_repository_that_cannot_be_asked_keeps_its_history(origin: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(origin), "night")
    git(tmp_path / "night", "remote", "set-url", "origin", str(tmp_path / "away.git"))
    done = subprocess.run(
        ["./nightly.sh", "my-server", "site"],
        cwd=tmp_path / "night",
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, "nothing was harvested" in last) == (1, True)
    assert not (tmp_path / "night/data").exists()
