"""A generated site that is far away, dates its tiles as Overviewer does, and has changed in part.

    python -m bench.dated_site DEPTH SECONDS CHANGED

Each answer leaves SECONDS after its request came. At least CHANGED tiles were drawn anew on the second day.
The site answers conditional GETs, and gives each tile the headers that nginx would give it.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from email.utils import formatdate
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import uvloop

from bench.far_server import far_site, question, serve
from bench.site import config, count, image, tile_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

_DRAWN_IN: Final = 30 * 86_400
"""Seconds before the first harvest within which the tiles were drawn."""
_DRAWN_UNTIL: Final = 1_704_150_000
"""Seconds since 1970: the evening before the first harvest."""
_REDRAWN_AT: Final = 1_704_240_000
"""Seconds since 1970: the first hour of the second harvest's day."""
_REDRAWN_IN: Final = 600
"""The most seconds that the second render took."""


class Drawing(NamedTuple):
    """A tile's file as it is now."""

    number: int
    """The number of the image; no two drawings have the same."""
    time: int
    """The file's time in seconds since 1970."""

    @property
    def is_new(self) -> bool:
        return self.time >= _REDRAWN_AT


def drawings(depth: int, changed: int) -> list[Drawing]:
    """Returns the drawings of all tiles, in the order of `tile_paths`.

    At least `changed` of them are new, if the map has as many tiles: some tiles of the deepest level, and all
    tiles above them. They lie anywhere on the map, because there a pruned walk spares least. A tile above
    others has the time of the newest of them. The same numbers give the same drawings.
    """
    times = [_times_of_leaves(depth, _leaves_to_change(depth, changed))]
    while len(times[0]) > 4:
        below = times[0]
        times.insert(0, [max(below[at : at + 4]) for at in range(0, len(below), 4)])
    whole = [time for level in times for time in level]
    return [
        Drawing(number + (len(whole) if time >= _REDRAWN_AT else 0), time)
        for number, time in enumerate(whole, 1)
    ]


def _times_of_leaves(depth: int, new: set[int]) -> list[int]:
    random = Random(1)  # noqa: S311
    old = [_DRAWN_UNTIL - random.randrange(_DRAWN_IN) for _ in range(4**depth)]
    return [_REDRAWN_AT + random.randrange(_REDRAWN_IN) if at in new else old[at] for at in range(4**depth)]


def _leaves_to_change(depth: int, changed: int) -> set[int]:
    """Draws leaves by lot until they and the tiles above them are so many changes."""
    order = Random(2).sample(range(4**depth), 4**depth)  # noqa: S311
    touched, leaves = set[tuple[int, int]](), set[int]()
    for leaf in order:
        if len(touched) >= changed:
            break
        leaves.add(leaf)
        touched |= {(up, leaf >> 2 * up) for up in range(depth)}
    return leaves


@dataclass(slots=True)
class Traffic:
    """The requests for tiles since the last look."""

    heads: int = 0
    gets: int = 0
    not_modified: int = 0
    """GETs that were answered with 304."""
    bytes: int = 0
    """Bytes of all answers, their heads included."""


class DatedSite:
    """The running server, seen from the bench."""

    def __init__(self, near: int, far: int, depth: int, changed: int) -> None:
        self._near = near
        self.tiles = count(depth)
        self.near_url = f"http://127.0.0.1:{near}"
        self.url = f"http://127.0.0.1:{far}"
        self.changed = [image(one.number) for one in drawings(depth, changed) if one.is_new]
        """The images that the site did not have on the first day."""

    def asked(self) -> Traffic:
        """Returns the requests since the last call, and begins to count anew."""
        return Traffic(**question(self._near, "/.asked"))


@contextmanager
def dated_site(depth: int, latency: float, changed: int) -> Iterator[DatedSite]:
    """Runs a site on the server's core until the block ends. `latency` is in seconds."""
    with far_site("bench.dated_site", depth, latency, changed) as (near, far):
        yield DatedSite(near, far, depth, changed)


class _File(NamedTuple):
    etag: bytes
    head: bytes
    body: bytes
    not_modified: bytes


class _DatedAnswers:
    """The answers that both ports give."""

    def __init__(self, depth: int, changed: int) -> None:
        self._asked = Traffic()
        self._config = _answer("200 OK", ("Content-Type: application/javascript",), config(depth).encode())
        self._tiles = {
            f"/{path}".encode(): _file(drawing)
            for path, drawing in zip(tile_paths(depth), drawings(depth, changed), strict=True)
        }

    def answer(self, request: bytes) -> bytes:
        method, path, rest = request.split(b" ", 2)
        file = self._tiles.get(path)
        if file is not None:
            return self._told_of(file, method, rest)
        if path == b"/.asked":
            told, self._asked = asdict(self._asked), Traffic()
            return _answer("200 OK", (), json.dumps(told).encode())
        return self._config if path == b"/overviewerConfig.js" else _NOTHING

    def _told_of(self, file: _File, method: bytes, rest: bytes) -> bytes:
        asked = self._asked
        if method == b"HEAD":
            asked.heads += 1
            answer = file.head
        else:
            asked.gets += 1
            is_known = _condition(rest) == file.etag
            asked.not_modified += is_known
            answer = file.not_modified if is_known else file.head + file.body
        asked.bytes += len(answer)
        return answer


def _condition(rest: bytes) -> bytes | None:
    """Returns the value of `If-None-Match`, or None without one. Crawlers write its name in any case."""
    at = rest.lower().find(b"\r\nif-none-match:")
    return None if at < 0 else rest[at + 16 :].split(b"\r\n", 1)[0].strip()


def _file(drawing: Drawing) -> _File:
    """Makes the answers for a tile. They have nginx's header fields, so that they are as long as nginx's."""
    body = image(drawing.number)
    etag = f'"{drawing.time:x}-{len(body):x}"'
    of_both = (f"Last-Modified: {formatdate(drawing.time, usegmt=True)}", f"ETag: {etag}")
    of_body = ("Content-Type: image/png", f"Content-Length: {len(body)}", "Accept-Ranges: bytes")
    return _File(
        etag.encode(), _head("200 OK", (*of_both, *of_body)), body, _head("304 Not Modified", of_both)
    )


def _head(status: str, fields: tuple[str, ...]) -> bytes:
    every = ("Server: bench", f"Date: {formatdate(_REDRAWN_AT, usegmt=True)}", "Connection: keep-alive")
    return "\r\n".join((f"HTTP/1.1 {status}", *every, *fields, "", "")).encode()


def _answer(status: str, fields: tuple[str, ...], body: bytes) -> bytes:
    return _head(status, (*fields, f"Content-Length: {len(body)}")) + body


_NOTHING: Final = _answer("404 Not Found", (), b"")


if __name__ == "__main__":
    _answers = _DatedAnswers(int(sys.argv[1]), int(sys.argv[3]))
    uvloop.run(serve(_answers.answer, float(sys.argv[2])))
