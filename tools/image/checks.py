"""The checks of what a container of the image must do, in the order in which they are made.

The first line of each docstring is printed, with what the check returned after it.
"""

# ruff: noqa: S603, S607 -- it runs Debian's programs over its own folders

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import stat
import subprocess
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tools.image import servers
from tools.image.container import Container, await_
from tools.image.site import FAST, SLOW

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from tools.image.build import Image

    Check: TypeAlias = Callable[[Image, Path, ExitStack], str]
    """A check gets the image, a folder for what it writes, and a stack for what later checks need.

    It returns what it found, in words. It raises AssertionError when something is wrong."""

PROJECT: Final = Path(__file__).resolve().parents[2]
USER: Final = 1000
TILES: Final = 59
"""The number of images on the first day of the demo's world, as the README has it."""
LOGIN: Final = {"SCRAPYD_USERNAME": "boss", "SCRAPYD_PASSWORD": servers.PASSWORD}
START: Final = 30.0
"""Seconds in which everything must have started."""


def holds_only_the_program(image: Image, folder: Path, stack: ExitStack) -> str:
    """It has no compiler and no pip, the user may change nothing, and everything is compiled:"""
    there = {path.name for path in _files(image.root) if path.is_file() and os.access(path, os.X_OK)}
    tools = there & {"gcc", "cc", "make", "pip", "pip3", "ld"}
    assert not tools, f"build tools in the image: {sorted(tools)}"
    owned = {f"/{path.relative_to(image.root)}" for path in _files(image.root) if path.lstat().st_uid == USER}
    assert owned == {"/data", "/scrapyd"}, f"the user owns {sorted(owned)}"
    open_ = [path for path in _files(image.root / "venv") if _is_open(path)]
    assert not open_, f"anyone may write {open_}"
    sources = [path for path in (image.root / "venv").rglob("*.py") if "/site-packages/" in str(path)]
    bare = [path for path in sources if not list((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"))]
    assert not bare, f"not compiled: {bare}"
    size = sum(path.lstat().st_size for path in _files(image.root / "venv"))
    return f"/venv has {size / 1e6:.0f} MB"


def has_pinned_packages_only(image: Image, folder: Path, stack: ExitStack) -> str:
    """Every package is the one that constraints.txt names:"""
    lines = (PROJECT / "container/constraints.txt").read_text().splitlines()
    pinned = dict(_package(*line.split("==")) for line in lines if "==" in line)
    found = image.root.glob("venv/lib/python*/site-packages/*.dist-info")
    here = dict(_package(*path.name.removesuffix(".dist-info").rsplit("-", 1)) for path in found)
    here.pop("tileharvest")
    wrong = {name: version for name, version in here.items() if pinned.get(name) != version}
    assert not wrong, f"not as in constraints.txt (run `make image-constraints`): {wrong}"
    return f"{len(here)} packages"


def harvests(image: Image, folder: Path, stack: ExitStack) -> str:
    """`add` and `harvest` keep the demo's map in SQLite and a folder:"""
    stack.enter_context(servers.site(folder / "site", PROJECT))
    data = _volume(folder / "data")
    for words in (
        ["add", "demo", f"http://127.0.0.1:{FAST}/"],
        ["add", "slow", f"http://127.0.0.1:{SLOW}/"],
        ["harvest", "demo"],
    ):
        with Container(image, words, {"/data": (data, "rw")}) as container:
            assert container.wait(START) == 0, container.output
    assert _added(image, data, "demo", {}) == TILES
    return f"{TILES} tiles"


def imports_from_git(image: Image, folder: Path, stack: ExitStack) -> str:
    """`import git` makes history of a repository, by the image's own git:"""
    data = _volume(folder / "imported")
    (data / "maps.toml").write_text('[past]\nurl = "https://map.example.net/"\n')
    repository = data / "map"
    shutil.copytree(folder / "site", repository)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.net"]
    for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message=a"]):
        subprocess.run(["git", "-C", repository, *words], check=True)
    # Git reads no repository of somebody else's.
    subprocess.run(["chown", "--recursive", f"{USER}:{USER}", repository], check=True)
    with Container(image, ["import", "git", "/data/map", "past"], {"/data": (data, "rw")}) as container:
        assert container.wait(START) == 0, container.output
    assert _added(image, data, "past", {}) == TILES
    return f"{TILES} tiles"


def harvests_and_shows(image: Image, folder: Path, stack: ExitStack) -> str:
    """One container with `run --serve` is a whole installation, is healthy, and ends on SIGTERM:"""
    words = ["run", "demo", "--serve"]
    with Container(image, words, {"/data": (folder / "data", "rw")}) as container:
        # This is another address of the loopback: the viewer must listen on all.
        await_(lambda: _ask("127.0.0.2", 8000, "/")[0] == 200, container, START, "the viewer answers")
        await_(lambda: "nothing is due" in container.output, container, START, "it waits for tomorrow")
        assert container.health() == (0, ""), container.health()
        return _stopped(container, 30, {0})


def runs_jobs_of_scrapyd(image: Image, folder: Path, stack: ExitStack) -> str:
    """`scrapyd` has a password and this project only, and is healthy; SIGTERM ends its jobs tidily:"""
    with Container(image, ["scrapyd"], {}) as container:
        assert container.wait(START) == 2, container.output
        assert "set SCRAPYD_USERNAME and SCRAPYD_PASSWORD" in container.output
    volumes = {"/data": (folder / "data", "rw"), "/scrapyd": (_volume(folder / "scrapyd"), "rw")}
    with Container(image, ["scrapyd"], volumes, LOGIN) as container:
        await_(lambda: _ask("127.0.0.2", 6800, "/daemonstatus.json"), container, START, "scrapyd answers")
        assert _ask("127.0.0.2", 6800, "/daemonstatus.json")[0] == 401
        assert container.health() == (0, ""), container.health()
        assert _scrapyd("listprojects.json")["projects"] == ["tileharvest"]
        assert _ask("127.0.0.1", 6800, "/addversion.json", _login())[0] == 404
        job = _scrapyd("schedule.json", project="tileharvest", spider="overviewer", map="slow")["jobid"]
        log = folder / f"scrapyd/logs/tileharvest/overviewer/{job}.log"
        await_(lambda: _harvests(image, folder / "data", "slow", {}), container, START, "the job harvests")
        ended = _stopped(container, 60, {0})
    assert "Spider closed" in _text(log), _text(log)
    assert _added(image, folder / "data", "slow", {}) is None, "the job was not stopped, it was through"
    with Container(image, ["scrapyd"], volumes, LOGIN) as container:
        await_(lambda: _ask("127.0.0.1", 6800, "/"), container, START, "scrapyd answers")
        assert [job["id"] for job in _jobs("finished")] == [job], "the job is forgotten"
        _scrapyd("schedule.json", project="tileharvest", spider="overviewer", map="slow")
        await_(lambda: len(_jobs("finished")) == 2, container, 60, "the next job goes on and ends")
        _stopped(container, 10, {0})
    assert _added(image, folder / "data", "slow", {}) == TILES
    return ended


def harvests_as_a_fleet(image: Image, folder: Path, stack: ExitStack) -> str:
    """Two workers on Redis and PostgreSQL are healthy while Redis is; SIGTERM ends one, the other goes on:"""
    redis = stack.enter_context(servers.redis(PROJECT))
    url = f"redis://:{servers.PASSWORD}@127.0.0.1:{redis.port}/0"
    fleet = {"DATABASE_URL": stack.enter_context(servers.postgresql()), "REDIS_URL": url}
    data = _volume(folder / "shared")
    shutil.copy(folder / "data/maps.toml", data)
    volumes = {"/data": (data, "rw")}
    with (
        Container(image, ["run"], volumes, fleet) as one,
        Container(image, ["run"], volumes, fleet) as two,
    ):
        await_(lambda: one.health() == two.health() == (0, ""), one, START, "the workers are healthy")
        await_(lambda: _harvests(image, data, "slow", fleet), one, 60, "they come to the slow map")
        ended = _stopped(one, 60, {0})
        await_(lambda: _added(image, data, "slow", fleet) == TILES, two, 60, "the other one finishes")
        assert not list(data.glob("queues/*")), "the queue is not in Redis"
        with Container(image, ["serve"], {"/data": (data, "ro")}, fleet) as viewer:
            await_(
                lambda: _ask("127.0.0.2", 8000, "/api/v1/maps/slow")[0] == 200, viewer, START, "it is shown"
            )
        redis.kill()
        status, fault = two.health()
        assert (status, f"127.0.0.1:{redis.port}" in fault, servers.PASSWORD in fault) == (1, True, False), (
            fault
        )
        _stopped(two, 30, {0})
    return ended


ALL: Final[Sequence[Check]] = (
    holds_only_the_program,
    has_pinned_packages_only,
    harvests,
    imports_from_git,
    harvests_and_shows,
    runs_jobs_of_scrapyd,
    harvests_as_a_fleet,
)


def _package(name: str, version: str) -> tuple[str, str]:
    """Returns a package's name, in the form in which names are compared, and its version."""
    return re.sub(r"[-_.]+", "-", name).lower(), version


def _volume(folder: Path) -> Path:
    """Makes a volume as an engine does: its owner is that of the folder in the image."""
    folder.mkdir()
    shutil.chown(folder, USER, USER)
    return folder


def _stopped(container: Container, patience: float, statuses: set[int]) -> str:
    status, seconds = container.stop(patience)
    assert status in statuses, f"exit status {status} after SIGTERM:\n{container.output}"
    assert "Traceback" not in container.output, container.output
    return f"ended in {seconds:.1f} s"


def _added(image: Image, data: Path, name: str, environment: dict[str, str]) -> int | None:
    """Returns the tiles that all of the map's harvests added, or None unless the newest one is finished."""
    known = _harvests(image, data, name, environment)
    is_finished = bool(known) and known[-1]["reason"] == "finished"
    return sum(one["counts"]["add"] for one in known) if is_finished else None


def _harvests(image: Image, data: Path, name: str, environment: dict[str, str]) -> Any:
    with Container(image, ["harvests", name, "--json"], {"/data": (data, "rw")}, environment) as container:
        # The status is another one where there is no history yet.
        return json.loads(container.output) if container.wait(START) == 0 else []


def _ask(host: str, port: int, path: str, *more: str, form: str = "") -> tuple[int, str]:
    connection = HTTPConnection(host, port, timeout=10)
    headers = {"Authorization": more[0]} if more else {}
    if form:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request("POST" if form else "GET", path, form or None, headers)
    with connection.getresponse() as answer:
        return answer.status, answer.read().decode()


def _login() -> str:
    return f"Basic {base64.b64encode(':'.join(LOGIN.values()).encode()).decode()}"


def _scrapyd(service: str, **form: str) -> Any:
    status, answer = _ask(
        "127.0.0.1", 6800, f"/{service}", _login(), form="&".join(f"{key}={form[key]}" for key in form)
    )
    assert status == 200, answer
    answered = json.loads(answer)
    assert answered["status"] == "ok", answered
    return answered


def _jobs(state: str) -> Any:
    return _scrapyd("listjobs.json?project=tileharvest")[state]


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if not path.is_symlink()]


def _is_open(path: Path) -> bool:
    return bool(path.lstat().st_mode & (stat.S_IWOTH | stat.S_IWGRP))
