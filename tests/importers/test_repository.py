"""Fetches by the real git from a slow host: what ends them, and what they leave."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.forking import ROOT
from tests.fleet.workers import await_until
from tests.servers.git_host import git_host
from tests.servers.repositories import FastImport, moment_of
from tileharvest.errors import SiteError
from tileharvest.importers import repository as repository_module
from tileharvest.importers.fetched_commit import packed_bytes
from tileharvest.importers.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE: Final = 240.0
"""The most seconds to wait. It takes one or two."""
FETCHING: Final = """
import sys
from pathlib import Path
from tileharvest.importers.repository import Repository
Repository.bare(Path(sys.argv[1]), sys.argv[2]).fetch(None)
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A repository of 3 MB, which comes in half a minute."""
    folder = tmp_path_factory.mktemp("slow")
    made, noise = FastImport(folder / "map.git"), random.Random(1)
    made.commit(moment_of("2024-05-01"), {f"{name}.png": noise.randbytes(30_000) for name in range(100)})
    made.written()
    with git_host(folder, "limit_rate 100k;") as server:
        yield f"{server.url}/map.git"


def packs(folder: Path) -> list[str]:
    return [file.name.partition("_")[0] for file in folder.glob("objects/pack/*")]


def processes() -> Iterator[tuple[int, list[str]]]:
    """Returns the running processes, with the group and the command line of each."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, group = (process / "stat").read_text().rpartition(") ")[2].split()[:3]
            if state != "Z":
                yield int(group), (process / "cmdline").read_text().split("\0")


def group_of_git(folder: Path) -> int | None:
    """Returns the process group of the git that fetches into the folder, or None if there is none. The
    programs that git has started are in it, too."""
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
    Repository.bare(folder, address).unlock()
    assert packs(folder) == []


def test_git_ends_when_the_watch_over_a_fetch_raises(address: str, tmp_path: Path) -> None:
    repository = Repository.bare(tmp_path / "cache", address)
    groups = set()

    def watch() -> None:
        if packs(repository.folder):
            groups.add(group_of_git(repository.folder))
            raise TimeoutError

    with pytest.raises(TimeoutError):
        repository.fetch(None, watch=watch)
    (group,) = groups
    assert group is not None
    await_until(lambda: not is_alive(group), PATIENCE)
    assert set(packs(repository.folder)) <= {"tmp"}


@pytest.mark.parametrize("scheme", ["http", "git", "ssh"])
def test_git_ends_when_a_host_stays_silent(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_module, "SILENCE", 0.2)
    # Else ssh would ask whether the host's key is right, and take the user's settings.
    monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -F none -o BatchMode=yes")
    folder = tmp_path / "cache"
    with socket.create_server(("127.0.0.1", 0)) as server:
        repository = Repository.bare(folder, f"{scheme}://127.0.0.1:{server.getsockname()[1]}/map.git")
        with pytest.raises(SiteError, match=r"be fetched \(git has not said a word for 0.2 s\); what was"):
            repository.fetch(None)
    await_until(lambda: group_of_git(folder) is None, PATIENCE)


@pytest.mark.parametrize(
    ("said", "bound"),
    [
        ("remote: Counting objects: 100% (8/8), done.\\nReceiving objects:  87% (7/8)\\r", "SILENCE"),
        ("remote: Receiving objects: 100% (8/8)\\r", "SILENCE"),
        ("Receiving objects: 100% (8/8), 1.15 MiB | 21.79 MiB/s, done.\\n", "_CHECK"),
        ("Receiving objects: 100% (8/8), done.\\nResolving deltas:  12% (1/8)\\r", "_CHECK"),
    ],
)
def test_git_has_longer_to_check_what_has_come(
    said: str, bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script in git's place says words of git and then nothing more."""
    folder, stand_in = tmp_path / "cache", tmp_path / "git"
    Repository.bare(folder, "/nowhere")
    stand_in.write_text(f"#!/bin/sh\nprintf '{said.replace('%', '%%')}' >&2\nexec sleep {PATIENCE:g}\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for one in ("SILENCE", "_CHECK"):
        monkeypatch.setattr(repository_module, one, 0.2 if one == bound else PATIENCE)
    with pytest.raises(SiteError, match=r"not said a word for 0.2 s"):
        Repository.bare(folder, "/nowhere").fetch(None)


def test_few_objects_come_as_a_pack_of_which_git_tells_how_far_it_is(tmp_path: Path) -> None:
    made = FastImport(tmp_path / "map.git")
    made.commit(moment_of("2024-05-01"), {"0.png": b"png"})
    made.written()
    folder = tmp_path / "cache"
    Repository.bare(folder, str(tmp_path / "map.git")).fetch(None)
    assert list(folder.glob("objects/pack/*.pack"))
    assert not list(folder.glob("objects/??"))


def test_what_ssh_has_said_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "sh -c 'echo git@example.net: Permission denied >&2; exit 255'")
    repository = Repository.bare(tmp_path / "cache", "git@example.net:owner/map")
    with pytest.raises(SiteError, match=r"be fetched \(git@example.net: Permission denied\); what was"):
        repository.fetch(None)


def test_a_pack_that_has_two_names_for_a_moment_is_counted_once(tmp_path: Path) -> None:
    """git links what has come to its last name before it takes the first one away."""
    packs = tmp_path / "objects" / "pack"
    packs.mkdir(parents=True)
    (packs / "tmp_pack_a1b2c3").write_bytes(b"PACK" * 25)
    assert packed_bytes(tmp_path) == 100
    os.link(packs / "tmp_pack_a1b2c3", packs / "pack-1.pack")
    assert packed_bytes(tmp_path) == 100
