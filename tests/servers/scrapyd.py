"""A real scrapyd. It runs jobs of the project that was deployed on it, in processes of their own.

Its Python has the requirements, but not the project itself: jobs run the code of the egg.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from tests.servers.program import PATIENCE, Program, free_port

PROJECT: Final = "tileharvest"
USER: Final = "deploy"
PASSWORD: Final = "open-sesame"

_OPENER: Final = build_opener(ProxyHandler({}))
"""An opener without a proxy, because scrapyd is on the loopback."""
_PYTHON: Final = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
"""The system's Python. In the tests' environment the project is installed, and would go before the egg."""

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
# Seconds. The default is 5.
poll_interval = 0.1
"""


class Scrapyd(Program):
    """A running scrapyd. All it knows is in its folder."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(folder)
        self._environment = environment
        self._port = free_port()
        (folder / "scrapyd.conf").write_text(_CONFIG.format(port=self._port), encoding="utf-8")

    @property
    def url(self) -> str:
        """The address with a slash at the end, as `scrapyd-deploy` wants it."""
        return f"http://127.0.0.1:{self._port}/"

    def ask(self, question: str, *, post: bool = False, **fields: str) -> Any:
        """Returns the answer of `question`.json. Raises URLError if nothing answers, or scrapyd refuses."""
        credentials = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        request = Request(f"{self.url}{question}.json", headers={"Authorization": f"Basic {credentials}"})
        if post:
            request.data = urlencode(fields).encode()
        else:
            request.full_url += f"?{urlencode(fields)}"
        with _OPENER.open(request, timeout=PATIENCE) as response:
            return json.load(response)

    def schedule(self, map_name: str, **arguments: str) -> str:
        """Schedules a harvest of the map, and returns the job's number."""
        fields = {"project": PROJECT, "spider": "overviewer", "map": map_name} | arguments
        answer = self.ask("schedule", post=True, **fields)
        assert answer["status"] == "ok", answer
        return str(answer["jobid"])

    def cancel(self, job: str) -> None:
        """Cancels a running job, as Ctrl-C does. The signal has been sent when this returns."""
        answer = self.ask("cancel", post=True, project=PROJECT, job=job)
        assert answer["prevstate"] == "running", answer

    def await_end(self, job: str) -> str:
        """Waits until the job has ended, and returns its log."""
        self.await_until(lambda: self.ask("status", project=PROJECT, job=job)["currstate"] == "finished")
        file = self.folder / "logs" / PROJECT / "overviewer" / f"{job}.log"
        return file.read_text(encoding="utf-8")

    def run(self, *arguments: str) -> str:
        """Runs `scrapy ...` out of the egg, and returns what it writes to stdout."""
        done = subprocess.run(
            [_PYTHON, "-m", "scrapyd.runner", *arguments],
            cwd=self.folder,
            env={**self._environment, "SCRAPY_PROJECT": PROJECT},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
        )
        return done.stdout

    def answers(self) -> bool:
        with suppress(URLError):
            return bool(self.ask("daemonstatus")["status"] == "ok")
        return False


@contextmanager
def scrapyd(environment: Mapping[str, str]) -> Iterator[Scrapyd]:
    """Runs a scrapyd, on which nothing is deployed, until the block ends, with its jobs. `environment` is
    that of jobs, besides what Python needs."""
    passed = {
        **environment,
        "PATH": os.environ["PATH"],
        # These folders hold the requirements. Python reads no `.pth` file in folders of PYTHONPATH, so it
        # does not find the project that is installed there.
        "PYTHONPATH": os.pathsep.join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}),
    }
    with tempfile.TemporaryDirectory(prefix="scrapyd-") as folder:
        server = Scrapyd(Path(folder), passed)
        try:
            # A file with its process number would outlive a kill.
            server.begin([_PYTHON, "-m", "scrapyd", "--pidfile="], server.answers, env=passed)
            yield server
        finally:
            server.end(signal.SIGTERM, as_group=True)
