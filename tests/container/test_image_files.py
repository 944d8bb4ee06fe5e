"""The container image's files, as far as they can be tried in a moment; `make image-check` tries the rest."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import tomllib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from container import healthy

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
START = ROOT / "container" / "start"
PIN = re.compile(r"^([\w.-]+)(?:\[\w+\])?==(\S+)$", re.MULTILINE)


def pins(file: str) -> dict[str, str]:
    """Versions by package, whose name is in the form in which names are compared."""
    found = PIN.findall((ROOT / file).read_text(encoding="utf-8"))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


# --- Dockerfile and compose.yaml -------------------------------------------------------------------


@pytest.mark.parametrize("file", ["requirements.txt", "container/requirements.txt"])
def test_the_image_has_the_versions_that_are_required(file: str) -> None:
    required = pins(file)
    # After a change of requirements: make image-constraints
    assert required.items() <= pins("container/constraints.txt").items()
    assert len(required) == len(re.findall(r"^[^#\s]", (ROOT / file).read_text(), re.MULTILINE))


def test_the_image_says_the_version_of_the_program() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    label = f'org.opencontainers.image.version="{project["version"]}"'
    assert label in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_image_is_bound_to_no_architecture() -> None:
    """`make image-check` looks for the wheels of arm64."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    written = "\n".join(line for line in lines if not line.startswith("#"))
    assert not re.search(r"amd64|arm64|x86|aarch64|TARGETARCH|--platform", written)


def test_no_password_has_a_value_before_somebody_writes_one() -> None:
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    example = (ROOT / "compose.env.example").read_text(encoding="utf-8")
    passwords = set(re.findall(r"\$\{(\w*PASSWORD)", text))
    assert passwords == set(re.findall(r"^(\w*PASSWORD)=$", example, re.MULTILINE))
    # Each stops compose at least once while it is empty.
    assert passwords == set(re.findall(r"\$\{(\w*PASSWORD):\?", text))


def test_only_this_computer_reaches_what_compose_publishes() -> None:
    published = re.findall(r"ports: (.*)", (ROOT / "compose.yaml").read_text(encoding="utf-8"))
    assert len(published) == 2
    assert all(re.fullmatch(r'\["127\.0\.0\.1:\d+:\d+"\]', ports) for ports in published)


def test_redis_refuses_what_it_cannot_hold_and_keeps_what_it_has() -> None:
    lines = {line.strip() for line in (ROOT / "compose.yaml").read_text(encoding="utf-8").splitlines()}
    assert {"appendonly yes", "maxmemory-policy noeviction", "requirepass ${REDIS_PASSWORD}"} <= lines


# --- container/start -------------------------------------------------------------------------------


@contextmanager
def started(folder: Path, *words: str, lines: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """`start` with a `tileharvest` of these shell lines. Only what it writes is a sign of what it does."""
    program = folder / "tileharvest"
    program.write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
    program.chmod(0o755)
    with subprocess.Popen(
        [START, *words],
        env={"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_worker_is_the_command_that_stays(tmp_path: Path) -> None:
    """In place of the shell, so that it gets the signals itself, and every word as it is."""
    with started(tmp_path, "run", "--at-once", "4", "a b", lines='echo "$$ $# $@"; exit 3') as worker:
        assert line_of(worker) == f"{worker.pid} 4 run --at-once 4 a b"
        assert worker.wait(10) == 3


@pytest.mark.parametrize(
    ("words", "became"),
    [
        (["serve", "--host", "::1"], "serve --host 0.0.0.0 --host ::1"),
        (["run", "--at-once", "4", "--serve"], "run --host 0.0.0.0 --at-once 4 --serve"),
    ],
)
def test_the_viewer_listens_outside_of_its_container_unless_told_otherwise(
    tmp_path: Path, words: list[str], became: str
) -> None:
    with started(tmp_path, *words, lines='echo "$@"') as viewer:
        # argparse takes the last --host.
        assert line_of(viewer) == became


@pytest.mark.parametrize("environment", [{}, {"SCRAPYD_USERNAME": "boss"}, {"SCRAPYD_PASSWORD": "c0ffee"}])
def test_scrapyd_does_not_start_without_a_login(tmp_path: Path, environment: dict[str, str]) -> None:
    with started(tmp_path, "scrapyd", lines="", **environment) as scrapyd:
        _, written = scrapyd.communicate(timeout=240)
        assert scrapyd.returncode == 2
        assert (
            written
            == "error: scrapyd runs what it is asked to; set SCRAPYD_USERNAME and SCRAPYD_PASSWORD first\n"
        )


# --- container/healthy.py --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "role"),
    [
        ("/sbin/docker-init -- /opt/tileharvest/container/start serve --port 9000", "serve"),
        ("/venv/bin/python /venv/bin/tileharvest serve --host 0.0.0.0", "serve"),
        ("/bin/sh /opt/tileharvest/container/start run", "run"),
        ("/venv/bin/python /venv/bin/scrapyd -n -y /venv/lib/scrapyd/txapp.py --pidfile=", "scrapyd"),
        ("/sbin/docker-init -- /opt/tileharvest/container/start scrapyd", "scrapyd"),
        ("/venv/bin/python /venv/bin/tileharvest harvest serve scrapyd", "harvest"),
        ("/sbin/docker-init -- /venv/bin/python /venv/bin/tileharvest run --serve", "run"),
        ("/pause", ""),
    ],
)
def test_the_first_process_tells_what_the_container_is_for(words: str, role: str) -> None:
    assert healthy.role(words.split())[0] == role


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/api/v1/maps" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize("command", [["serve"], ["run", "--serve"]])
def test_a_viewer_is_healthy_exactly_while_it_answers_on_its_port(
    command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setattr("tileharvest.settings.TILEHARVEST_DATA", str(tmp_path))
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
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
    last = done.stderr.splitlines()[-1]
    assert "UnhealthyError: Redis at redis://127.0.0.1:1/0" in last
    assert "c0ffee" not in done.stderr
