"""The server of a site that is far away: each answer leaves a while after its request came.

It is the bench's own server, because nginx cannot wait and not every kernel can delay packets. All answers
are made beforehand, and no answer waits for another one. The first line on its standard output tells its two
ports: `far` waits; `near` does not, and answers the bench's own questions.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from bench.cost import RunFailedError, cores, on_core
from bench.harvest import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE: Final = 30.0
"""Seconds in which the server must answer. It needs a second at most."""


@contextmanager
def far_site(module: str, *arguments: object) -> Iterator[tuple[int, int]]:
    """Runs a module that serves a site, on the server's core, until the block ends.

    Gives the ports near and far. Raises RunFailedError when the server does not start.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    with on_core(cores()[1]):
        process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise RunFailedError(f"{module} did not start; its own words are above")
            ports = json.loads(line)
            yield ports["near"], ports["far"]
        finally:
            process.terminate()


def question(near: int, path: str) -> Any:
    """Returns the site's answer to a question of the bench."""
    connection = http.client.HTTPConnection("127.0.0.1", near, timeout=_PATIENCE)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


async def serve(answer: Callable[[bytes], bytes], latency: float) -> None:
    """Answers requests on both ports for ever. `latency` is in seconds."""
    loop, ports = asyncio.get_running_loop(), {}
    for name, seconds in (("near", 0.0), ("far", latency)):

        def connection(seconds: float = seconds) -> _Connection:
            return _Connection(answer, seconds)

        server = await loop.create_server(connection, "127.0.0.1", 0, backlog=512)
        ports[name] = server.sockets[0].getsockname()[1]
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


class _Connection(asyncio.Protocol):
    """A connection with requests without bodies, one after the other, as crawlers make them."""

    def __init__(self, answer: Callable[[bytes], bytes], latency: float) -> None:
        self._answer = answer
        self._latency = latency
        self._received = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: Any) -> None:
        # uvloop's transport has another type than asyncio.Transport, but the same methods.
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self._received = (self._received + data).split(b"\r\n\r\n")
        for request in requests:
            answer = self._answer(request)
            if self._latency:
                self._loop.call_later(self._latency, self._write, answer)
            else:
                self._write(answer)

    def _write(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)
