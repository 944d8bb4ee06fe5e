"""The viewer's speed: how fast it answers on a long history, and how many images it serves per second.

`scrapy serve` has one core to itself; this process, which asks it, has another. Chromium may use all cores.
So that figures of different computers can be compared, SQLite's own time for the same views is measured too,
and nginx that serves the same files from the same core.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import selectors
import socket
import sqlite3
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, fields
from datetime import date, timedelta
from itertools import cycle
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench import viewer_page
from bench.cost import RunFailedError, cores, on_core
from bench.harvest import PROJECT
from bench.site import LAYER
from bench.viewed_history import DEEPEST, DEEPEST_WIDTH, DEPTH, FIRST_DAY, MAP, ViewedHistory, generate
from tests.servers.nginx import nginx
from tileharvest.tiles.grid import TileRange
from tileharvest.viewer.served_maps import OUTLINE_AGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ZOOMS: Final = (0, -1, -2, -3)
"""The zooms at which the map is at least as wide as a view."""
OVERVIEWS: Final = (-4, -5, -6, -7)
"""The coarser zooms, at which the whole map is in view."""
WIDTH: Final = 12
"""Tiles along an edge of a view: more than a screen of 4K has."""
PERIOD: Final = timedelta(days=30)
VIEWS: Final = 1000
OTHERS: Final = 300
LEISURELY: Final = 20
CONNECTIONS: Final = 16
SECONDS: Final = 3.0
ROUNDS: Final = 3
"""How often the viewer and nginx are measured in turn, so that the machine's other work falls on both."""
OURS: Final = "viewer, 200"
NGINX: Final = "nginx, 200"
_QUESTIONS: Final = {
    "changes": "changes per day, 12 x 12 tiles",
    "heat": "heat of 30 days, 12 x 12 tiles",
    "places": "places of 30 days, whole map",
}
_WARM_UP: Final = 100
_SEED: Final = 12


class Connection:
    """A kept connection with at most one request under way. It does little, because it is not measured."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._place = memoryview(bytearray(1 << 20))
        self._read = 0
        self.size = 0
        """Bytes of the answer, its head included; 0 until the head has come."""

    def ask(self, request: bytes) -> None:
        self._read = self.size = 0
        self.socket.sendall(request)

    def receive(self, status: int = 200) -> bool:
        """Takes what has come, or waits for something to come. Returns whether the answer is complete.

        Raises RunFailedError for another status, or for another length than the head says.
        """
        read = self.socket.recv_into(self._place[self._read :])
        self._read += read
        if not self.size:
            self._look_at_head(status)
        if not read or self._read > self.size > 0:
            raise RunFailedError("an answer of another length than its head says")
        return self._read == self.size

    def answer(self, request: bytes) -> bytes:
        """Asks, waits for the whole answer, and returns it."""
        self.ask(request)
        while not self.receive():
            pass
        return bytes(self._place[: self.size])

    def _look_at_head(self, status: int) -> None:
        head, end, _ = bytes(self._place[: min(self._read, 4096)]).partition(b"\r\n\r\n")
        if end:
            if int(head[9:12]) != status:
                raise RunFailedError(f"an answer that is no {status}: {head!r}")
            length = re.search(rb"Content-Length: (\d+)", head)
            # A 304 may tell the length of the body that it leaves out.
            body = int(length[1]) if length and status == 200 else 0
            self.size = len(head) + len(end) + body


class Server(NamedTuple):
    port: int
    process: int

    def cpu(self) -> float:
        """Returns the seconds of CPU that the server and its workers have used, exact to a hundredth."""
        workers = Path(f"/proc/{self.process}/task/{self.process}/children").read_text().split()
        stats = [Path(f"/proc/{each}/stat").read_text() for each in (self.process, *workers)]
        # The fields are counted from behind the program's name, which may have spaces in it.
        used = [stat.rpartition(")")[2].split()[11:13] for stat in stats]
        return sum(int(ticks) for both in used for ticks in both) / os.sysconf("SC_CLK_TCK")


def asking(path: str, header: str = "Accept: */*") -> bytes:
    """Returns the bytes of a request."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}\r\n\r\n".encode()


@dataclass(frozen=True, slots=True)
class Look:
    """An area that a visitor looks at, on a day."""

    area: TileRange
    day: date

    def request(self, question: str) -> bytes:
        """Returns the request as a browser makes it."""
        area = "&".join(f"{each.name}={getattr(self.area, each.name)}" for each in fields(self.area))
        period = f"after={self.day - PERIOD}&until={self.day}"
        asked = {"view": f"{area}&day={self.day}", "heat": f"{area}&{period}", "places": period}
        path = f"/api/v1/maps/{MAP}/{question}?layer={LAYER}&{asked.get(question, area)}"
        return asking(path, "Accept-Encoding: gzip")


def random_looks(history: ViewedHistory, count: int, random: Random) -> list[Look]:
    """Returns views of 12 x 12 tiles around tiles of the map, at all zooms and on all days.

    No view goes beyond the edges of the map.
    """
    looks = []
    by_zoom = {zoom: [tile for tile in history.tiles if tile.zoom == zoom] for zoom in ZOOMS}
    columns = {zoom: sorted({tile.x for tile in found}) for zoom, found in by_zoom.items()}
    rows = {zoom: sorted({tile.y for tile in found}) for zoom, found in by_zoom.items()}
    for zoom in random.choices(ZOOMS, k=count):
        tile, day = random.choice(by_zoom[zoom]), random.choice(history.days)
        area = TileRange(zoom, *_around(tile.x, columns[zoom]), *_around(tile.y, rows[zoom]))
        looks.append(Look(area, day))
    return looks


def _whole(zoom: int) -> TileRange:
    """Returns the tiles of the whole map."""
    last = 2**DEPTH - (1 << -zoom)
    return TileRange(zoom, -last, last, -last, last)


def _around(centre: int, every: Sequence[int]) -> tuple[int, int]:
    """Returns the first and the last of a view's columns, or rows."""
    first = max(0, min(every.index(centre) - WIDTH // 2, len(every) - WIDTH))
    return every[first], every[first + WIDTH - 1]


def timed(
    what: str, questions: Sequence[Any], ask: Callable[[Any], Any], cpu: Callable[[], float], pause: float = 0
) -> tuple[dict[str, Any], list[Any]]:
    """Asks one question after the other, `pause` seconds apart.

    Returns the figures of how long it took until each answer's last byte, and the answers.
    """
    milliseconds, answers, used = [], [], cpu()
    for question in questions:
        time.sleep(pause)
        began = time.perf_counter()
        answers.append(ask(question))
        milliseconds.append((time.perf_counter() - began) * 1000)
    percentiles = statistics.quantiles(milliseconds, n=100, method="inclusive")
    named = {f"p{percent}_ms": percentiles[percent - 1] for percent in (50, 95, 99)}
    each = (cpu() - used) * 1000 / len(questions)
    return {"what": what, "requests": len(questions), **named, "cpu_ms": each}, answers


def latencies(history: ViewedHistory, server: Server) -> Iterator[dict[str, Any]]:
    """Yields the figures of each question. Raises RunFailedError where a view differs from SQLite's own."""
    random = Random(_SEED)  # noqa: S311 - nothing here is secret
    connection, database = Connection(server.port), sqlite3.connect(history.database)
    with closing(connection.socket), closing(database):

        def asked(what: str, requests: list[bytes], pause: float = 0) -> tuple[dict[str, Any], list[bytes]]:
            return timed(what, requests, connection.answer, server.cpu, pause)

        asked("warm-up", [look.request("view") for look in random_looks(history, _WARM_UP, random)])
        looks = random_looks(history, VIEWS, random)
        views = [look.request("view") for look in looks]
        figures, answers = asked("view of 12 x 12 tiles", views)
        yield figures
        # The pause is so long that the viewer remembers nothing of the look before.
        yield asked("the same, one a second", views[:LEISURELY], 1.1 * OUTLINE_AGE)[0]
        figures, found = timed("SQLite alone", looks, lambda look: _found(database, look), time.process_time)
        yield figures
        if [_shown(answer) for answer in answers] != found:
            raise RunFailedError("the viewer's views are not what the history has")
        for question, what in _QUESTIONS.items():
            looks = random_looks(history, OTHERS, random)
            yield asked(what, [look.request(question) for look in looks])[0]
        # From afar all changes of the map are counted.
        overviews = [Look(_whole(zoom), FIRST_DAY) for zoom in OVERVIEWS]
        asked_from_afar = [look.request("changes") for look in random.choices(overviews, k=OTHERS)]
        yield asked("changes per day, whole map", asked_from_afar)[0]
        centres = range(2 - DEEPEST_WIDTH, DEEPEST_WIDTH, 4)
        # Each tile is asked for once, so that none is remembered.
        places = [f"/api/v1/maps/{DEEPEST}/composed/-1_{x}_{y}" for x in centres for y in centres]
        composed = [asking(f"{place}/{FIRST_DAY}.png?layer={LAYER}") for place in places]
        yield asked("a tile composed of four", composed)[0]


def _shown(answer: bytes) -> Any:
    head, _, body = answer.partition(b"\r\n\r\n")
    return json.loads(gzip.decompress(body) if b"gzip" in head else body)["tiles"]


_VIEW: Final = f"""
    SELECT tiles.x || '_' || tiles.y, shown.sha1 || '.' || shown.extension
    FROM tiles JOIN versions shown ON shown.id = (
        SELECT id FROM versions its
        WHERE its.layer = 1 AND its.zoom = tiles.zoom AND its.x = tiles.x AND its.y = tiles.y AND its.day <= ?
        ORDER BY its.day DESC LIMIT 1)
    WHERE tiles.layer = 1 AND tiles.zoom = ? AND tiles.y BETWEEN ? AND ?
    AND tiles.x IN ({", ".join("?" * WIDTH)})
"""  # noqa: S608 - of constants


def _found(database: sqlite3.Connection, look: Look) -> dict[str, str]:
    place = (look.area.zoom, look.area.y_from, look.area.y_to, *look.area.columns)
    return dict(database.execute(_VIEW, (look.day.isoformat(), *place)).fetchall())


def rate(what: str, server: Server, requests: Sequence[bytes], status: int = 200) -> dict[str, Any]:
    """Asks on several connections for some seconds. Each asks again as soon as it has its answer."""
    connections, following = [Connection(server.port) for _ in range(CONNECTIONS)], cycle(requests)
    answered = received = 0
    with selectors.DefaultSelector() as waiting, ExitStack() as opened:
        for connection in connections:
            opened.enter_context(connection.socket)
            waiting.register(connection.socket, selectors.EVENT_READ, connection)
            connection.ask(next(following))
        began, own, its = time.monotonic(), time.process_time(), server.cpu()
        while (seconds := time.monotonic() - began) < SECONDS:
            for key, _ in waiting.select():
                if key.data.receive(status):
                    answered, received = answered + 1, received + key.data.size
                    key.data.ask(next(following))
        own, its = time.process_time() - own, server.cpu() - its
    by_clock = {"per_second": answered / seconds, "megabytes_per_second": received / seconds / 1e6}
    loads = {"server_load": its / seconds, "client_load": own / seconds}
    return {"what": what, **by_clock, "per_cpu_second": answered / its, **loads}


def rates(history: ViewedHistory, server: Server, core: int) -> Iterator[dict[str, Any]]:
    """Yields the rates of the viewer and nginx in turn, and at last that of answers 304."""
    names = [(image.sha1, f"{image.sha1}.{image.extension}") for image in history.images]
    with ExitStack() as running:
        with on_core(core):
            # nginx is set up as in Debian, but without the log, which the viewer does not write either.
            location = "access_log off; sendfile on; tcp_nopush on;"
            other = running.enter_context(nginx(history.data / "tiles", location=location))
        for _ in range(ROUNDS):
            yield rate(OURS, server, [asking(f"/tiles/{name}") for _, name in names])
            paths = [f"/{sha1[:2]}/{name}" for sha1, name in names]
            yield rate(NGINX, Server(other.port, other.process.pid), [asking(path) for path in paths])
    known = [asking(f"/tiles/{name}", f'If-None-Match: "{sha1}"') for sha1, name in names]
    yield rate("viewer, 304", server, known, 304)


@contextmanager
def serving(history: ViewedHistory, core: int) -> Iterator[Server]:
    """Runs `scrapy serve` on this core until the block ends."""
    data, command = history.data, [sys.executable, "-m", "scrapy", "serve", "--port", "0"]
    places = os.environ | {"TILEHARVEST_DATA": str(data), "TILEHARVEST_MAPS": str(data / "maps.toml")}
    with on_core(core):
        process = subprocess.Popen(command, cwd=PROJECT, env=places, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            address = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            if address is None:
                raise RunFailedError(f"`scrapy serve` gave no address but {line!r}")
            yield Server(int(address[1]), process.pid)
        finally:
            process.terminate()


def measure(folder: Path, versions: int) -> dict[str, Any]:
    """Writes a history below the folder, serves it and asks.

    This takes eight minutes for a million versions. Raises RunFailedError where an answer is not what
    it should be, and ValueError as `generate` does.
    """
    began = time.monotonic()
    history = generate(folder / "viewer", versions)
    written = time.monotonic() - began
    core, own_core = cores()
    with serving(history, core) as server:
        with on_core(own_core):
            waits, served = list(latencies(history, server)), list(rates(history, server, core))
        page = viewer_page.measure(f"http://127.0.0.1:{server.port}/", history.days)
    size = {"tiles": len(history.tiles), "days": len(history.days), "bytes": history.database.stat().st_size}
    ratios = {"ratio": _ratio(served, "per_second"), "ratio_by_cpu": _ratio(served, "per_cpu_second")}
    return {
        "versions": versions,
        **size,
        "seconds": written,
        "latencies": waits,
        "rates": served,
        **ratios,
        **page,
    }


def _ratio(served: list[dict[str, Any]], by: str) -> float:
    ours, theirs = ([float(row[by]) for row in served if row["what"] == what] for what in (OURS, NGINX))
    return statistics.median(ours) / statistics.median(theirs)
