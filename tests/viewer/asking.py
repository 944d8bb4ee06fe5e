"""A viewer that runs, and a client that says exactly what it is told to."""

import asyncio
import gzip
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPMessage
from typing import Any
from urllib.parse import urlencode, urlsplit

import uvloop
from scrapy.settings import Settings

from tests.end_to_end.project import Project
from tests.viewer.building import World
from tileharvest.commands.serve import viewer_of
from tileharvest.tiles.grid import TileRange
from tileharvest.viewer.application import Application
from tileharvest.viewer.server import listening

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: HTTPMessage
    body: bytes
    """As it was sent."""

    @property
    def json(self) -> Any:
        zipped = self.headers["Content-Encoding"] == "gzip"
        return json.loads(gzip.decompress(self.body) if zipped else self.body)

    @property
    def error(self) -> str:
        """The line of a refusal, which says nothing else."""
        answer = self.json
        assert list(answer) == ["error"]
        assert "\n" not in answer["error"]
        return str(answer["error"])


@dataclass(frozen=True, slots=True)
class Client:
    """Asks one server, on a new connection each time."""

    port: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def get(self, path: str, query: dict[str, Any] | None = None, **headers: str) -> Reply:
        """`if_none_match="..."` is the header If-None-Match."""
        return self.ask("GET", f"{path}?{urlencode(query)}" if query else path, headers)

    def ask(self, method: str, target: str, headers: dict[str, str] | None = None) -> Reply:
        """A request for exactly this target."""
        named = {"Host": HOST, "Accept-Encoding": "identity", "Connection": "close"}
        named |= {name.replace("_", "-").title(): value for name, value in (headers or {}).items()}
        with closing(HTTPConnection(HOST, self.port, timeout=240)) as connection:
            connection.request(method, target, headers=named)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())


def of_area(area: TileRange, **more: Any) -> dict[str, Any]:
    """Parameters of an area and others."""
    edges = {name: getattr(area, name) for name in ("zoom", "x_from", "x_to", "y_from", "y_to")}
    return {**more, **edges}


@contextmanager
def serving(
    world: World | Project, only: Sequence[str] = (), ancestors: Sequence[str] = (), **options: Any
) -> Iterator[Client]:
    """The world's viewer on a free port, in a thread, wired as the command does it; gone when the block ends.
    The options are those of `listening`."""
    settings = Settings(
        {"TILEHARVEST_MAPS": world.maps_file, "TILEHARVEST_DATA": world.data, "DATABASE_URL": ""}
    )
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve(application: Application) -> None:
        stopped = asyncio.Event()
        async with listening(application, HOST, 0, **options) as address:
            started.set_result((address, asyncio.get_running_loop(), stopped))
            await stopped.wait()

    def run(application: Application) -> None:
        # It is closed in this thread, too: in the other one the loop of a browser may be running.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(application))

    with viewer_of(settings, only, ancestors) as application:
        thread = threading.Thread(target=run, args=(application,))
        thread.start()
        address, loop, stopped = started.result(240)
        try:
            yield Client(urlsplit(address).port or 0)
        finally:
            loop.call_soon_threadsafe(stopped.set)
            thread.join(240)
            assert not thread.is_alive()
