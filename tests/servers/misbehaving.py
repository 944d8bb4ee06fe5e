"""A web server that serves a folder as nginx does, until a test tells it to misbehave.

    with misbehaving(folder) as site:
        site.rules["/tiles/0.png"] = rules.first(2, rules.status(500))

It runs in a thread, which has an event loop of its own.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiohttp import web

_PATIENCE: Final = 120.0
"""Seconds in which the loop must do what it is asked. It needs some milliseconds."""
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "application/javascript",
    ".json": "application/json",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}


class Received(NamedTuple):
    """A request as it came to the server."""

    method: str
    path: str
    headers: Mapping[str, str]
    """The header fields, which are looked up without regard to case."""
    time: float
    """When the request came, in seconds of `time.monotonic`."""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, the file that it asks for, and the proper answer to it."""

    request: web.Request
    file: Path
    proper: Answer

    @property
    def path(self) -> str:
        return self.request.path

    async def answered(self, rule: "Rule | None") -> web.StreamResponse:
        """Answers by the rule, or properly if there is none. To HEAD go only the headers of an `Answer`,
        Content-Length included."""
        found = await rule(self) if callable(rule) else rule
        if isinstance(found, web.StreamResponse):
            return found
        answer = found or self.proper
        return web.Response(status=answer.status, headers=dict(answer.headers), body=answer.body)


Rule = Answer | Callable[[Exchange], Awaitable[Answer | web.StreamResponse | None]]
"""What is answered, or a function that says it. With None the answer is the proper one."""


@dataclass(slots=True)
class Misbehaving:
    """A running server. Its rules may be changed while it runs, between requests."""

    folder: Path
    port: int = 0
    rules: dict[str, Rule] = field(default_factory=dict)
    """Rules by path, such as `/tiles/0.png`. They go before `rule_for_all`."""
    rule_for_all: Rule | None = None
    received: list[Received] = field(default_factory=list)
    """Every request in order of arrival, also those that are never answered."""

    @property
    def url(self) -> str:
        """The address of the folder, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.received.append(Received(request.method, request.path, request.headers, time.monotonic()))
        file = (self.folder / request.path.lstrip("/")).resolve()
        if not file.is_relative_to(self.folder.resolve()):
            raise web.HTTPNotFound
        exchange = Exchange(request, file, _proper_answer(file, request))
        return await exchange.answered(self.rules.get(request.path, self.rule_for_all))


@contextmanager
def misbehaving(folder: Path) -> Iterator[Misbehaving]:
    """Serves `folder` on a free loopback port until the block ends. Answers still owed are dropped then."""
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
    """Runs an event loop in a thread, and gives a function that runs a coroutine there to its end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="misbehaving", daemon=True)
    thread.start()
    try:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(_PATIENCE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)
        loop.close()


def _proper_answer(file: Path, request: web.Request) -> Answer:
    """Returns what nginx answers for a static file, whose validators are made of time and size alone."""
    page = {"Content-Type": "text/html"}
    if not file.is_file():
        return Answer(404, page, b"<h1>404 Not Found</h1>")
    if request.method not in ("GET", "HEAD"):
        return Answer(405, page, b"<html><body><h1>405 Not Allowed</h1></body></html>")
    status = file.stat()
    validators = {
        "ETag": f'"{int(status.st_mtime):x}-{status.st_size:x}"',
        "Last-Modified": formatdate(int(status.st_mtime), usegmt=True),
    }
    since, known = request.headers.get("If-Modified-Since"), request.headers.get("If-None-Match")
    has_conditions = since is not None or known is not None
    # nginx looks at both, and compares dates exactly.
    if (
        has_conditions
        and since in (None, validators["Last-Modified"])
        and (known is None or known.removeprefix("W/") == validators["ETag"])
    ):
        return Answer(304, validators)
    kind = _TYPES.get(file.suffix, "application/octet-stream")
    return Answer(200, validators | {"Content-Type": kind}, file.read_bytes())
