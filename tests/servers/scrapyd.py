"""A real scrapyd, which runs jobs of the project that was deployed on it, in processes of their own.

Its Python has the requirements, but not the project itself: what jobs run comes out of the egg.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROJECT: Final = "tileharvest"
USER: Final = "deploy"
PASSWORD: Final = "open-sesame"

_PATIENCE: Final = 60.0
"""Seconds for scrapyd to start, to end a job of some requests, or to stop; each needs one or two, if nothing
else runs."""
_MOMENT: Final = 0.02
"""Seconds between two looks at what it does."""

_OPENER: Final = build_opener(ProxyHandler({}))
"""The way to the loopback leads through no proxy."""
_PYTHON: Final = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
"""Not that of the tests' environment: the project is installed there, and would go before the egg."""

_CONFIG: Final = f"""
[scrapyd]
bind_address = 127.0.0.1
http_port    = {{port}}
username     = {USER}
password     = {PASSWORD}
eggs_dir     = eggs
logs_dir     = logs
dbs_dir      = dbs
jobstorage   = scrapyd.jobstorage.SqliteJobStorage
jobs_to_keep = 100
max_proc     = 2
# Seconds; 5 by default.
poll_interval = 0.1
"""


class Scrapyd:
    """Answers on the same port of the loopback after each start. All it knows is in its folder."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """`environment` is that of jobs, besides what Python needs."""
        self.folder = folder
        self._environment = dict(environment) | {
            "PATH": os.environ["PATH"],
            # The requirements. What installed the project there is not looked at in folders named so.
            "PYTHONPATH": os.pathsep.join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._port = _free_port()
        (folder / "scrapyd.conf").write_text(_CONFIG.format(port=self._port), encoding="utf-8")

    @property
    def url(self) -> str:
        """With a slash at the end, as `scrapyd-deploy` wants it."""
        return f"http://127.0.0.1:{self._port}/"

    def ask(self, question: str, *, password: str = PASSWORD, post: bool = False, **fields: str) -> Any:
        """What `question`.json answers, a dict; the HTTP status where that is not 200. OSError if nobody is
        there."""
        credentials = base64.b64encode(f"{USER}:{password}".encode()).decode()
        request = Request(f"{self.url}{question}.json", headers={"Authorization": f"Basic {credentials}"})
        if post:
            request.data = urlencode(fields).encode()
        else:
            request.full_url += f"?{urlencode(fields)}"
        try:
            with _OPENER.open(request, timeout=_PATIENCE) as response:
                return json.load(response)
        except HTTPError as error:
            with error:
                return error.code

    def schedule(self, map_name: str, **arguments: str) -> str:
        """A job that harvests the map: its number. AssertionError with scrapyd's words if it refuses."""
        fields = {"project": PROJECT, "spider": "overviewer", "map": map_name} | arguments
        answer = self.ask("schedule", post=True, **fields)
        assert answer["status"] == "ok", answer
        return str(answer["jobid"])

    def cancel(self, job: str) -> None:
        """As Ctrl-C: the signal has been sent when this returns."""
        answer = self.ask("cancel", post=True, project=PROJECT, job=job)
        assert answer["prevstate"] == "running", answer

    def jobs(self, state: str) -> list[str]:
        """The numbers of jobs that are `pending`, `running` or `finished`."""
        return [job["id"] for job in self.ask("listjobs", project=PROJECT)[state]]

    def await_end(self, job: str) -> str:
        """The job's log, once it has ended."""
        self._await(lambda: self.ask("status", project=PROJECT, job=job)["currstate"] == "finished")
        return self.log(job)

    def await_line(self, job: str, words: str) -> None:
        """Returns when the job has written these into its log."""
        self._await(lambda: words in self.log(job))

    def log(self, job: str) -> str:
        file = self.folder / "logs" / PROJECT / "overviewer" / f"{job}.log"
        return file.read_text(encoding="utf-8")

    def run(self, *arguments: str) -> str:
        """What `scrapy ...`, out of the egg, writes to stdout. CalledProcessError if it fails."""
        return subprocess.check_output(
            [_PYTHON, "-m", "scrapyd.runner", *arguments],
            cwd=self.folder,
            env=self._environment | {"SCRAPY_PROJECT": PROJECT},
            text=True,
            timeout=_PATIENCE,
        )

    def start(self) -> None:
        """Returns when it answers. Raises RuntimeError with its own words if it does not start."""
        with (self.folder / "scrapyd.log").open("ab") as log:
            self._process = subprocess.Popen(
                # Without a file of its process number, which would outlive a kill.
                [_PYTHON, "-m", "scrapyd", "--pidfile="],
                cwd=self.folder,
                env=self._environment,
                stdout=log,
                stderr=log,
                # A group of its own: stopped as a whole, and by nobody else's Ctrl-C.
                start_new_session=True,
            )
        try:
            self._await(self._answers)
        except TimeoutError:
            self.stop()
            words = (self.folder / "scrapyd.log").read_text(encoding="utf-8")
            raise RuntimeError(f"scrapyd does not start: {words}") from None

    def stop(self) -> None:
        """With its jobs, as systemd does. Harmless when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_PATIENCE)
        finally:
            # Whatever is left of the group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _answers(self) -> bool:
        try:
            return bool(self.ask("daemonstatus")["status"] == "ok")
        except URLError:
            return False

    def _await(self, is_so: Any) -> None:
        end = time.monotonic() + _PATIENCE
        while not is_so():
            if time.monotonic() > end or self._process is None or self._process.poll() is not None:
                raise TimeoutError
            time.sleep(_MOMENT)


@contextmanager
def scrapyd(environment: Mapping[str, str]) -> Iterator[Scrapyd]:
    """Run one, on which nothing is deployed, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="scrapyd-") as folder:
        server = Scrapyd(Path(folder), environment)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
