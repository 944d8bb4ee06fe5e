"""A link that is far and narrow: what passes it comes late, and no faster than the link allows.

    python -m bench.narrow_link PORT SECONDS BYTES_PER_SECOND

It is a proxy in front of a server on this computer, because not every kernel can delay packets. All
connections share each direction of the link: what they send leaves in turn, as fast as the link allows, and
arrives half of the latency later. The link loses nothing, and lets a new connection send at its full rate.
"""

from __future__ import annotations

import asyncio
import json
import sys
from math import inf
from typing import TYPE_CHECKING, Any, Final

import uvloop
from rich.table import Table

from bench.far_server import far_site
from bench.harvest import FIRST_DAY, SECOND_DAY, check, describe, harvest
from bench.site import count, depth_for, drawn, generate
from tests.servers.nginx import nginx

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from tests.servers.nginx import LogLine

LATENCY: Final = 0.04
"""Seconds from a request to the first byte of its answer."""
RATE: Final = 50_000_000 // 8
"""Bytes per second: 50 Mbit/s."""
CONNECTIONS: Final = 16
TILES: Final = 5_000
"""At least. An image has 19 kB: 16 connections that wait 40 ms each could take 7.5 MB/s, more than the link
has."""
_PART: Final = 16_384
"""Bytes that leave together."""
_WAITING: Final = 0.01
"""Seconds that a part may wait for the link to be free, as in the memory of a router. Without it the link
would stand idle from the moment at which it is free until the proxy notices."""


def measure(folder: Path, console: Console) -> dict[str, Any]:
    """Measures which share of the link a first harvest and an unchanged one use.

    The link allows an unchanged harvest an answer in each latency and connection, and a first one so many, or
    as many bytes as its rate. The first and the last twentieth of the tiles are left out: there the walk has
    too few tiles for all connections.
    """
    depth = depth_for(TILES)
    site, place = folder / "narrow-site", folder / "narrow"
    generate(site, depth, drawn)
    table = Table("harvest", "tiles", "s", "MB", "share of the link", title="Over 40 ms and 50 Mbit/s")
    found = {}
    with nginx(site) as server, far_site("bench.narrow_link", server.port, LATENCY, RATE) as (_, far):
        describe(place, f"http://127.0.0.1:{far}", CONNECTIONS)
        for name, day, method in (("first", FIRST_DAY, "GET"), ("unchanged", SECOND_DAY, "HEAD")):
            cost = harvest(server, place, day)
            check(server, {method: count(depth)})
            found[name] = use = _use([line for line in server.log() if line.path.endswith(".png")])
            use["cpu_per_thousand"] = cost.cpu / count(depth) * 1000
            figures = (f"{use['seconds']:.1f}", f"{use['bytes'] / 1e6:.1f}", f"{use['share']:.1%}")
            table.add_row(name, f"{use['tiles']:,}", *figures)
    console.print(table)
    return found


def _use(tiles: Sequence[LogLine]) -> dict[str, float]:
    """Returns the use of the link, by nginx's log: it ends an answer when the link has begun to take it."""
    left_out = len(tiles) // 20
    first, *others = tiles[left_out : len(tiles) - left_out]
    seconds, sent = others[-1].time - first.time, sum(tile.sent for tile in others)
    allowed = max(sent / RATE, len(others) * LATENCY / CONNECTIONS)
    return {"tiles": len(others), "seconds": seconds, "bytes": sent, "share": allowed / seconds}


class _Link:
    """One direction of the link, which all connections share."""

    def __init__(self, latency: float, rate: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._latency = latency
        self._rate = rate
        self._free = -inf
        """When the link has sent all that it was given."""

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries what comes until its sender has ended. Reads no more while enough waits for the link."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deliver(under_way, writer))
            while part := await reader.read(_PART):
                now = self._loop.time()
                self._free = max(self._free, now) + len(part) / self._rate
                under_way.put_nowait((self._free + self._latency, part))
                await asyncio.sleep(self._free - now - _WAITING)
            under_way.put_nowait((self._free + self._latency, b""))

    async def _deliver(
        self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        """Hands over each part when it arrives, in the order in which the parts were sent."""
        part = b"-"
        while part:
            due, part = await under_way.get()
            await asyncio.sleep(due - self._loop.time())
            writer.write(part)
        writer.close()


async def _serve(port: int, latency: float, rate: float) -> None:
    there, back = _Link(latency / 2, rate), _Link(latency / 2, rate)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        its_reader, its_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(there.carry(reader, its_writer), back.carry(its_reader, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=512)
    sys.stdout.write(json.dumps({"near": port, "far": server.sockets[0].getsockname()[1]}) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
