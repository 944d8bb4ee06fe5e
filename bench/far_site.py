"""A generated site that is far away: each answer leaves a while after its request came.

    python -m bench.far_site DEPTH SECONDS

It is the bench's own server, because nginx cannot wait and not every kernel can delay packets. No answer
waits for another one. The first line on standard output is the port.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvloop
from aiohttp import web

from bench.cost import PROJECT, RunFailedError, cores, on_core
from bench.site import LAYER, config, image, tile_paths

if TYPE_CHECKING:
    from collections.abc import Iterator


def asked_of(url: str) -> dict[str, list[float]]:
    """Returns when tiles were asked for since the last call, by method, on the site's own clock."""
    with urllib.request.urlopen(f"{url}/.asked") as answer:  # noqa: S310 - http on the loopback
        asked: dict[str, list[float]] = json.load(answer)
    return asked


@contextmanager
def far_site(depth: int, latency: float) -> Iterator[str]:
    """Runs a site on the servers' core until the block ends. `latency` is in seconds. Gives its address."""
    command = [sys.executable, "-m", "bench.far_site", str(depth), str(latency)]
    with on_core(cores()[1]):
        process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            port = process.stdout.readline().strip() if process.stdout else ""
            if not port:
                raise RunFailedError("the far site did not start; its own words are above")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


async def _serve(depth: int, latency: float) -> None:
    paths = (f"{LAYER}/base.png", *tile_paths(depth))
    tiles = {f"/{path}": (f'"{number:x}"', image(number)) for number, path in enumerate(paths)}
    asked: dict[str, list[float]] = {"HEAD": [], "GET": []}

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/.asked":
            told = web.json_response(asked)
            for times in asked.values():
                times.clear()
            return told
        if request.path in tiles:
            asked[request.method].append(time.monotonic())
        await asyncio.sleep(latency)
        if request.path == "/overviewerConfig.js":
            return web.Response(text=config(depth), headers={"ETag": '"config"'})
        if request.path not in tiles:
            return web.Response(status=404)
        etag, body = tiles[request.path]
        return web.Response(body=body, headers={"ETag": etag, "Content-Type": "image/png"})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=512).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), float(sys.argv[2])))
