"""Fetches by the real git from a slow host: what ends them, and what they leave."""

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.forking import ROOT
from tests.fleet.workers import await_until
from tests.importers.imports import repository as made_repository
from tests.servers.git_host import git_host
from tileharvest.errors import SiteError, TileHarvestError
from tileharvest.importers import repository as repository_module
from tileharvest.importers.repository import Repository

PATIENCE: Final = 240.0
"""The most seconds to wait. It takes one or two."""
FETCHING: Final = """
import sys
from pathlib import Path
from tileharvest.importers.repository import Repository
Repository(Path(sys.argv[1]), sys.argv[2]).fetch(None)
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A repository of 3 MB, which comes in half a minute."""
    folder, noise = tmp_path_factory.mktemp("slow"), random.Random(1)
    files = {f"{name}.png": noise.randbytes(30_000) for name in range(100)}
    made_repository(folder / "map.git", {"2024-05-01": files})
    with git_host(folder, "limit_rate 100k;") as server:
        yield f"{server.url}/map.git"


def packs(folder: Path) -> list[str]:
    return [file.name.partition("_")[0] for file in folder.glob("objects/pack/*")]


def processes() -> Iterator[tuple[int, list[str]]]:
    """Yields the running processes, with the group and the command line of each."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, group = (process / "stat").read_text().rpartition(") ")[2].split()[:3]
            if state != "Z":
                yield int(group), (process / "cmdline").read_text().split("\0")


def group_of_git(folder: Path) -> int | None:
    """Returns the process group of the git that fetches into the folder, or None if there is none."""
    found = (group for group, words in processes() if words[0].endswith("git") and str(folder) in words)
    return next(found, None)


def is_alive(group: int | None) -> bool:
    return group in {one for one, _ in processes()}


def test_git_ends_when_the_program_that_fetches_is_killed(address: str, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with subprocess.Popen([sys.executable, "-c", FETCHING, str(folder), address], cwd=ROOT) as process:
        await_until(lambda: packs(folder) == ["tmp"], PATIENCE)
        group = group_of_git(folder)
        assert is_alive(group)
        process.kill()
    await_until(lambda: not is_alive(group), PATIENCE)
    # Half a pack is there, and nothing of use.
    assert packs(folder) == ["tmp"]
    made_repository(tmp_path / "map.git", {"2024-05-01": {"0.png": b"png"}})
    # A kill can also leave half a git folder.
    (folder / "refs").rename(folder / "other")
    Repository(folder, str(tmp_path / "map.git")).fetch(None)
    assert "tmp" not in packs(folder)


@pytest.mark.parametrize("scheme", ["http", "ssh"])
def test_git_ends_when_a_host_stays_silent(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_module, "SILENCE", 0.2)
    # Else ssh would ask whether the host's key is right, and take the user's settings.
    monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -F none -o BatchMode=yes")
    folder = tmp_path / "cache"
    with socket.create_server(("127.0.0.1", 0)) as server:
        repository = Repository(folder, f"{scheme}://127.0.0.1:{server.getsockname()[1]}/map.git")
        with pytest.raises(SiteError, match=r"be fetched \(git has not said a word for 0.2 s\); what was"):
            repository.fetch(None)
    await_until(lambda: group_of_git(folder) is None, PATIENCE)


def test_what_ssh_has_said_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "sh -c 'echo git@example.net: Permission denied >&2; exit 255'")
    repository = Repository(tmp_path / "cache", "git@example.net:owner/map")
    with pytest.raises(SiteError, match=r"be fetched \(git@example.net: Permission denied\); what was"):
        repository.fetch(None)


def test_without_the_git_program_a_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        TileHarvestError, match="git program is not installed, and nothing was changed: install"
    ):
        Repository(tmp_path)
