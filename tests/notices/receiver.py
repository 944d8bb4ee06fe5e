"""Somebody who gets notices: what Apprise's `json://` posts to."""

import base64
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image


@dataclass(frozen=True, slots=True)
class Posted:
    """A message that came, well or not."""

    path: str
    content: dict[str, Any]

    @property
    def title(self) -> str:
        return str(self.content["title"])

    @property
    def body(self) -> str:
        return str(self.content["message"])

    @property
    def attachments(self) -> list[bytes]:
        return [base64.b64decode(one["base64"]) for one in self.content["attachments"]]

    @property
    def picture(self) -> Image.Image:
        """The one picture that came with it, unpacked."""
        (attached,) = self.attachments
        with Image.open(io.BytesIO(attached)) as image:
            assert image.format == "JPEG"
            return image.convert("RGB")


@dataclass(slots=True)
class Receiver:
    """Answers 500 below `/500`, never below `/hang`, and else 200."""

    port: int
    posted: list[Posted] = field(default_factory=list)

    def address(self, path: str = "/", user: str = "") -> str:
        """For Apprise."""
        return f"json://{user}{'@' if user else ''}127.0.0.1:{self.port}{path}"


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Listens on a free loopback port until the block ends; who waits for an answer then gets none."""
    ending = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            received.posted.append(Posted(self.path, content))
            if self.path.startswith("/hang"):
                ending.wait(60)
                return
            self.send_response(500 if self.path.startswith("/500") else 200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received = Receiver(server.server_port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield received
        finally:
            ending.set()
            server.shutdown()
            thread.join()
