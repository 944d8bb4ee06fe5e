"""A web server that serves a folder as nginx does, until a test tells it to misbehave.

    with misbehaving(folder) as site:
        site.rules["/tiles/0.png"] = rules.first(2, rules.status(500))

It runs in a thread with an event loop of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
    from pathlib import Path

_PATIENCE: Final = 10.0
"""Seconds for the loop to do what it is asked; it needs some milliseconds."""

_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "application/javascript",
    ".json": "application/json",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the server got it."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """Looked up without regard to case."""
    time: float
    """When it came, on the clock of `time.monotonic`, in seconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a well-behaved server would say: a rule's raw material."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and the proper answer to it, handed to a rule."""

    request: web.Request
    proper: Answer

    @property
    def path(self) -> str:
        return self.request.path

    async def send(self, answer: Answer) -> web.StreamResponse:
        """Send the answer; to HEAD its headers only, Content-Length included."""
        return web.Response(status=answer.status, headers=dict(answer.headers), body=answer.body)

    async def send_properly(self) -> web.StreamResponse:
        return await self.send(self.proper)


if TYPE_CHECKING:
    Rule = Callable[[Exchange], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Misbehaving:
    """A running server. Its rules may be changed while it runs, between requests."""

    folder: Path
    port: int = 0
    rules: dict[str, Rule] = field(default_factory=dict)
    """By path, such as `/tiles/0.png`; they go before `rule_for_all`."""
    rule_for_all: Rule | None = None
    received: list[Received] = field(default_factory=list)
    """Every request, in order of arrival; those that are never answered, too."""

    @property
    def url(self) -> str:
        """Where the folder is, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.received.append(
            Received(request.method, request.path, request.query_string, request.headers, time.monotonic())
        )
        exchange = Exchange(request, _proper_answer(self.folder, request))
        rule = self.rules.get(request.path, self.rule_for_all)
        return await (exchange.send_properly() if rule is None else rule(exchange))


@contextmanager
def misbehaving(folder: Path) -> Iterator[Misbehaving]:
    """Serve `folder` on a free loopback port until the block ends; answers still owed are dropped then."""
    site = Misbehaving(folder)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", site.answer)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0)
    with _loop_in_thread() as run:
        try:
            site.port = run(_listen(runner))
            yield site
        finally:
            run(runner.cleanup())


async def _listen(runner: web.AppRunner) -> int:
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port: int = runner.addresses[0][1]
    return port


@contextmanager
def _loop_in_thread() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """An event loop that runs in a thread, as a function that has it run a coroutine to its end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="misbehaving", daemon=True)
    thread.start()
    try:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(_PATIENCE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)
        loop.close()


def _proper_answer(folder: Path, request: web.Request) -> Answer:
    """What nginx answers for a static file: its validators are made of time and size alone."""
    file = (folder / request.path.lstrip("/")).resolve()
    if not (file.is_file() and file.is_relative_to(folder.resolve())):
        return Answer(404, {"Content-Type": "text/html"}, b"<h1>404 Not Found</h1>")
    if request.method not in ("GET", "HEAD"):
        return Answer(
            405, {"Content-Type": "text/html"}, b"<html><body><h1>405 Not Allowed</h1></body></html>"
        )
    status = file.stat()
    validators = {
        "ETag": f'"{int(status.st_mtime):x}-{status.st_size:x}"',
        "Last-Modified": formatdate(int(status.st_mtime), usegmt=True),
    }
    if _unchanged(request, validators):
        return Answer(304, validators)
    kind = _TYPES.get(file.suffix, "application/octet-stream")
    return Answer(200, validators | {"Content-Type": kind}, file.read_bytes())


def _unchanged(request: web.Request, validators: Mapping[str, str]) -> bool:
    """Whether all of the request's conditions say "still as you have it" (nginx asks all, exactly)."""
    since, known = request.headers.get("If-Modified-Since"), request.headers.get("If-None-Match")
    if since is not None and since != validators["Last-Modified"]:
        return False
    if known is not None and known != "*":
        return validators["ETag"] in [tag.strip().removeprefix("W/") for tag in known.split(",")]
    return since is not None or known is not None
