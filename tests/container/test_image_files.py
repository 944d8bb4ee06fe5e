"""The container image's files, as far as they can be tried in a moment; `make image-check` tries the rest."""

import os
import re
import subprocess
import sys
import threading
import tomllib
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from container import healthy

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^([\w.-]+)(?:\[\w+\])?==(\S+)$", re.MULTILINE)


def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def pins(file: str) -> dict[str, str]:
    """Versions by package, whose name is in the form in which names are compared."""
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in PIN.findall(text_of(file))}


@pytest.mark.parametrize("file", ["requirements.txt", "container/requirements.txt"])
def test_the_image_has_the_versions_that_are_required(file: str) -> None:
    required = pins(file)
    # After a change of requirements: make image-constraints
    assert required.items() <= pins("container/constraints.txt").items()
    assert len(required) == len(re.findall(r"^[^#\s]", text_of(file), re.MULTILINE))


def test_the_image_says_the_version_of_the_program() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    assert f'org.opencontainers.image.version="{project["version"]}"' in text_of("Dockerfile")


def test_compose_asks_for_each_password_and_publishes_to_this_computer_alone() -> None:
    text = text_of("compose.yaml")
    passwords = set(re.findall(r"\$\{(\w*PASSWORD)", text))
    assert passwords == set(re.findall(r"^(\w*PASSWORD)=$", text_of("compose.env.example"), re.MULTILINE))
    # Each stops compose at least once while it is empty.
    assert passwords == set(re.findall(r"\$\{(\w*PASSWORD):\?", text))
    published = re.findall(r"ports: (.*)", text)
    assert len(published) == 2
    assert all(re.fullmatch(r'\["127\.0\.0\.1:\d+:\d+"\]', ports) for ports in published)
    # Redis refuses what it cannot hold, and keeps what it has.
    lines = {line.strip() for line in text.splitlines()}
    assert {"appendonly yes", "maxmemory-policy noeviction", "requirepass ${REDIS_PASSWORD}"} <= lines


def start(folder: Path, *words: str, lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `container/start` with a `tileharvest` of these shell lines."""
    program = folder / "tileharvest"
    program.write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
    program.chmod(0o755)
    path = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    command = [ROOT / "container" / "start", *words]
    return subprocess.run(command, env=path | environment, capture_output=True, text=True, check=False)


def test_the_command_takes_the_place_of_the_shell_and_gets_every_word_as_it_is(tmp_path: Path) -> None:
    done = start(tmp_path, "run", "--at-once", "4", "a b", lines='echo "$PPID $# $@"; exit 3')
    assert (done.returncode, done.stdout) == (3, f"{os.getpid()} 4 run --at-once 4 a b\n")


@pytest.mark.parametrize(
    ("words", "became"),
    [
        # argparse takes the last --host.
        (["serve", "--host", "::1"], "serve --host 0.0.0.0 --host ::1"),
        (["run", "--at-once", "4", "--serve"], "run --host 0.0.0.0 --at-once 4 --serve"),
    ],
)
def test_the_viewer_listens_outside_of_its_container_unless_told_otherwise(
    tmp_path: Path, words: list[str], became: str
) -> None:
    assert start(tmp_path, *words, lines='echo "$@"').stdout == f"{became}\n"


@pytest.mark.parametrize("environment", [{"SCRAPYD_USERNAME": "boss"}, {"SCRAPYD_PASSWORD": "c0ffee"}])
def test_scrapyd_does_not_start_without_a_login(tmp_path: Path, environment: dict[str, str]) -> None:
    done = start(tmp_path, "scrapyd", lines="", **environment)
    said = "error: scrapyd runs what it is asked to; set SCRAPYD_USERNAME and SCRAPYD_PASSWORD first"
    assert (done.returncode, done.stderr) == (2, f"{said}\n")


@pytest.mark.parametrize(
    ("words", "role"),
    [
        ("/sbin/docker-init -- /opt/tileharvest/container/start serve --port 9000", "serve"),
        ("/venv/bin/python /venv/bin/scrapyd -n -y /venv/lib/scrapyd/txapp.py --pidfile=", "scrapyd"),
        ("/venv/bin/python /venv/bin/tileharvest harvest serve scrapyd", "harvest"),
        ("/pause", ""),
    ],
)
def test_the_first_process_tells_what_the_container_is_for(words: str, role: str) -> None:
    assert healthy.role(words.split())[0] == role


@pytest.mark.parametrize("command", [["serve"], ["run", "--serve"]])
def test_a_viewer_is_healthy_exactly_while_it_answers_on_its_port(
    command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setattr("tileharvest.settings.TILEHARVEST_DATA", str(tmp_path))
    (tmp_path / "api" / "v1" / "maps").mkdir(parents=True)
    answering = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with HTTPServer(("127.0.0.1", 0), answering) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        words = ["tileharvest", *command, "--host", "0.0.0.0", "--port", "1", f"--port={server.server_port}"]
        try:
            healthy.check(words)
        finally:
            server.shutdown()
            thread.join()
    with pytest.raises(OSError, match="refused"):
        healthy.check(words)


def test_a_worker_is_not_healthy_without_its_redis_and_says_so_without_the_password(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from container import healthy; healthy.check(['start', 'run'])"],
        cwd=ROOT,
        env={"TILEHARVEST_DATA": str(tmp_path), "REDIS_URL": "redis://:c0ffee@127.0.0.1:1/0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "UnhealthyError: Redis at redis://127.0.0.1:1/0" in done.stderr.splitlines()[-1]
    assert "c0ffee" not in done.stderr
