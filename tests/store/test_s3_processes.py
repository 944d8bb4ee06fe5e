"""Programs that put into the same bucket at once, and programs that are killed while they put."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.servers.s3 import environment
from tileharvest.store.port import MissingImageError
from tileharvest.store.s3 import S3Store
from tileharvest.tiles.versions import Image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.s3 import S3

BODY: Final = bytes(range(256)) * 1_200
IMAGE: Final = Image(sha1(BODY).hexdigest(), "png", len(BODY))
PATIENCE: Final = 240.0
"""Seconds for a program to start or to put; both take less than one."""

PROGRAM: Final = """
import sys
from hashlib import sha1
from tileharvest.store.s3 import S3Store
from tileharvest.tiles.versions import Image

body = bytes(range(256)) * 1_200
store = S3Store("tiles", "maps")
print("ready", flush=True)
for _ in sys.stdin:
    print(bool(store.put({Image(sha1(body).hexdigest(), "png", len(body)): body})), flush=True)
"""


@contextmanager
def program(url: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a program that puts the image for each line that it is sent, and prints whether it was new."""
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=Path(__file__).resolve().parents[2],
        env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        | environment(url),
    )
    with running:
        try:
            yield running
        finally:
            running.kill()


def said(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


def send_line(running: subprocess.Popen[str]) -> None:
    assert running.stdin is not None
    running.stdin.write("\n")


@contextmanager
def killed(s3: S3, after: int) -> Iterator[socket.socket]:
    """The server's end of a put: it has got this many bytes of the body, and nobody will hear its answer,
    for the program that sent them was killed."""
    with socket.create_server(("127.0.0.1", 0)) as gate, ExitStack() as opened:
        gate.settimeout(PATIENCE)
        writer = opened.enter_context(program(f"http://127.0.0.1:{gate.getsockname()[1]}"))
        assert said(writer) == "ready"
        send_line(writer)
        sender = opened.enter_context(gate.accept()[0])
        sender.settimeout(PATIENCE)
        server = opened.enter_context(socket.create_connection(("127.0.0.1", s3.port), PATIENCE))
        request = b""
        while (head := request.find(b"\r\n\r\n")) < 0 or len(request) < head + 4 + after:
            part = sender.recv(65_536)
            assert part
            request += part
        server.sendall(request[: head + 4 + after])
        writer.kill()
        writer.wait()
        yield server


def test_of_several_programs_exactly_one_is_told_that_the_image_is_new(s3: S3) -> None:
    with ExitStack() as running:
        programs = [running.enter_context(program(s3.url)) for _ in range(3)]
        assert [said(each) for each in programs] == ["ready"] * 3
        for each in programs:
            send_line(each)
        assert sorted(said(each) for each in programs) == ["False", "False", "True"]


def test_of_a_put_that_is_killed_half_way_there_is_nothing(s3: S3) -> None:
    with killed(s3, after=len(BODY) // 2) as server:
        # The end of the stream, as the network tells it of a program that is no more.
        server.shutdown(socket.SHUT_WR)
        assert b" 400 " in server.recv(65_536)
    store = S3Store("tiles", "maps")
    with pytest.raises(MissingImageError):
        store.named(IMAGE.file_name)
    assert store.put({IMAGE: BODY})
    assert store.named(IMAGE.file_name) == BODY


def test_of_a_put_that_is_killed_before_its_answer_there_is_the_whole_image(s3: S3) -> None:
    with killed(s3, after=len(BODY)) as server:
        assert b" 200 " in server.recv(65_536)
    store = S3Store("tiles", "maps")
    assert not store.put({IMAGE: BODY})
    assert store.named(IMAGE.file_name) == BODY
