"""Moto's S3 on a free loopback port. It answers as S3 does, but much more slowly.

It never checks checksums, as Amazon does, and it checks credentials only when it is told to.
"""

import http.client
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from io import BytesIO
from typing import Any, Final

import pytest
from aiohttp import ClientSession, web

from tests.servers.misbehaving import Exchange, Rule
from tests.servers.program import PATIENCE

KEY_ID: Final = "AKIAEXAMPLEOFTESTS"
SECRET: Final = "hush/a+secret"
_OWNER: Final = f"AWS4-HMAC-SHA256 Credential={KEY_ID}/20261120/us-east-1/s3/aws4_request, Signature=0"
"""The owner's credentials. Moto checks no signature, but a request without one counts as a stranger's."""
_OF_ONE_HOP: Final = {"connection", "keep-alive", "transfer-encoding", "host", "date", "server"}


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Message
    """The header fields, which are looked up without regard to case."""
    body: bytes


@dataclass(frozen=True, slots=True)
class S3:
    """A running server."""

    port: int

    @property
    def url(self) -> str:
        """The address of the buckets, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        """Asks as the buckets' owner. `headers` are written with underscores: `If_None_Match="*"`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, {"Authorization": _OWNER} | sent)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def start_over(self, *buckets: str) -> None:
        """Makes the server forget everything and have these empty buckets."""
        self._expect(200, self.ask("POST", "/moto-api/reset"))
        for bucket in buckets:
            self._expect(200, self.ask("PUT", f"/{bucket}"))

    @contextmanager
    def checking_credentials(self) -> Iterator[None]:
        """Lets the server check credentials while the block runs. It knows none, so all are wrong."""
        self._expect(200, self.ask("POST", "/moto-api/reset-auth", b"0"))
        try:
            yield
        finally:
            self._expect(200, self.ask("POST", "/moto-api/reset-auth", b"inf"))

    def _expect(self, status: int, reply: Reply) -> None:
        if reply.status != status:
            raise RuntimeError(f"moto answered {reply.status}: {reply.body!r}")


def environment(url: str) -> dict[str, str]:
    """Returns the environment of a program whose S3 is at this address.

    Nothing in it leads off this computer.
    """
    return {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        # A program without credentials looks for them at this address. Port 9 is closed.
        "AWS_METADATA_ENDPOINT": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
    }


def lead_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the S3 of this process at the address until the test ends, whatever its environment said."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in environment(url).items():
        monkeypatch.setenv(name, value)


@contextmanager
def s3() -> Iterator[S3]:
    """Runs an S3 without buckets in a thread until the block ends."""
    # These modules are slow to import, and only needed here.
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import make_server  # noqa: PLC0415

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = _one_by_one(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    serving = threading.Thread(target=server.serve_forever, name="s3", daemon=True)
    serving.start()
    try:
        yield S3(server.server_port)
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def forwarded(url: str) -> Rule:
    """Makes a rule that hands each request on to the server at `url`, and its answer back."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        request = exchange.request
        sent = {name: value for name, value in request.headers.items() if name.lower() not in _OF_ONE_HOP}
        body = await request.read()
        async with (
            ClientSession(auto_decompress=False) as session,
            session.request(request.method, url + request.path_qs, headers=sent, data=body) as response,
        ):
            headers = {k: v for k, v in response.headers.items() if k.lower() not in _OF_ONE_HOP}
            return web.Response(status=response.status, headers=headers, body=await response.read())

    return answer


def _one_by_one(application: Any) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    """Lets one request after the other into the application.

    Between looking and writing moto lets others in, so two conditional puts may both succeed. S3 promises
    that they do not. Bodies are read before the lock is taken, so a slow one holds up nobody.
    """
    turn = threading.Lock()

    def answer(request: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        length = int(request.get("CONTENT_LENGTH") or 0)
        body = request["wsgi.input"].read(length)
        if len(body) < length:
            start_response("400 Bad Request", [("Content-Length", "0")])
            return [b""]
        request["wsgi.input"] = BytesIO(body)
        with turn:
            return list(application(request, start_response))

    return answer
