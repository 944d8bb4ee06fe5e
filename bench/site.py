"""A generated Overviewer site of any size: a full quadtree of small PNG files, no two of them alike."""

from __future__ import annotations

import itertools
import json
import os
import struct
import zlib
from functools import cache
from hashlib import sha384
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LAYER: Final = "world-lighting"
TILE_SIZE: Final = 384
"""Pixels along an edge, as Overviewer's tiles have."""

_RENDERED_AT: Final = 1_704_067_200
"""The time of the first file, in seconds since 1970: 2024-01-01 in UTC. Each file is a second newer than the
one before."""
_BELOW: Final = ((1, 2, 3, 4), (16, 12, 5, 60))
"""How many tiles lie below one, and below how many of `antworld` so many do."""
_BARREN: Final = 0.02
_ROWS: Final = ((30, 100, TILE_SIZE), (8, 1, 1))
"""The rows of noise in the images of a sparse map, by which they have 1.4 to 19 kB, and 3.5 kB on average: as
those of `antworld`."""


def depth_for(tiles: int) -> int:
    """Returns the smallest depth whose full quadtree has at least this many tiles: 4 + 16 + ... + 4^depth."""
    return next(depth for depth in itertools.count(1) if count(depth) >= tiles)


def count(depth: int) -> int:
    """Returns the number of tiles of a full quadtree. The whole-map image is not counted."""
    return sum(1 << 2 * level for level in range(1, depth + 1))


def tile_paths(depth: int) -> Iterator[str]:
    """Yields every tile's path below the site, such as `world-lighting/0/3.png`, coarse levels first."""
    for level in range(1, depth + 1):
        for digits in itertools.product("0123", repeat=level):
            yield f"{LAYER}/{'/'.join(digits)}.png"


def generate(folder: Path, depth: int, draw: Callable[[int], bytes] | None = None) -> None:
    """Writes the site, in about half a millisecond per file. `folder` must not exist.

    `draw` returns the image of a number; without it they are those of `image`.
    """
    folder.mkdir(parents=True)
    (folder / "overviewerConfig.js").write_text(config(depth), encoding="utf-8")
    for level in range(depth):
        for digits in itertools.product("0123", repeat=level):
            (folder / LAYER / "/".join(digits)).mkdir(parents=True, exist_ok=True)
    for number, path in enumerate((f"{LAYER}/base.png", *tile_paths(depth))):
        _write(folder / path, (draw or image)(number), _RENDERED_AT + number)


def generate_sparse(folder: Path, tiles: int) -> None:
    """Writes a site of so many tiles, by `sparse_paths`. `folder` must not exist."""
    folder.mkdir(parents=True)
    paths = sparse_paths(tiles)
    (folder / "overviewerConfig.js").write_text(config(paths[-1].count("/")), encoding="utf-8")
    rows = Random(tiles).choices(*_ROWS, k=tiles)  # noqa: S311 - always the same
    for number, path in enumerate(paths):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        _write(folder / path, drawn(number, rows[number]), _RENDERED_AT + number)


def _write(file: Path, body: bytes, changed_at: int) -> None:
    file.write_bytes(body)
    os.utime(file, (changed_at, changed_at))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


# Each pixel is one bit, and all bits are 0: the one colour of the palette.
_ROW: Final = b"\0" * (1 + TILE_SIZE // 8)
_START: Final = b"\x89PNG\r\n\x1a\n" + _chunk(
    b"IHDR", struct.pack(">IIBBBBB", TILE_SIZE, TILE_SIZE, 1, 3, 0, 0, 0)
)
_END: Final = _chunk(b"IDAT", zlib.compress(_ROW * TILE_SIZE, 9)) + _chunk(b"IEND", b"")


def image(number: int) -> bytes:
    """Returns a PNG of about 120 bytes. Its one colour is the number: below 2^24 no two are alike."""
    return _START + _chunk(b"PLTE", number.to_bytes(3, "big")) + _END


@cache
def _noise(rows: int) -> bytes:
    noise = bytes(row for at in range(rows) for row in (0, *sha384(b"%d" % at).digest()))
    return _chunk(b"IDAT", zlib.compress(noise + _ROW * (TILE_SIZE - rows), 1))


def drawn(number: int, rows: int = TILE_SIZE) -> bytes:
    """Returns a PNG of about 48 bytes for each of these rows, which nothing makes smaller."""
    palette = _chunk(b"PLTE", number.to_bytes(3, "big") + b"\0\0\0")
    return _START + palette + _noise(rows) + _chunk(b"IEND", b"")


def sparse_paths(tiles: int) -> list[str]:
    """Returns the paths of a map as people have them, coarse levels first: nowhere full, and of uneven depth.

    The number of tiles below one tile is that of the published map `antworld`, where it is between 1 and 4;
    one in fifty has none. They are drawn, always the same.
    """
    chance = Random(tiles)  # noqa: S311 - always the same
    found = [*"0123"]
    for above in found:
        if len(above) > 2 and chance.random() < _BARREN:
            continue
        found += sorted(above + digit for digit in chance.sample("0123", chance.choices(*_BELOW)[0]))
        if len(found) >= tiles:
            break
    return [f"{LAYER}/{'/'.join(path)}.png" for path in found[:tiles]]


def config(depth: int) -> str:
    """Returns the text of `overviewerConfig.js`."""
    tileset = {
        "name": "Bench",
        "zoomLevels": depth,
        "minZoom": 0,
        "maxZoom": depth,
        "defaultZoom": 1,
        "path": LAYER,
        "base": "",
        "bgcolor": "#1a1a1a",
        "world": "world",
        "last_rendertime": _RENDERED_AT,
        "imgextension": "png",
        "isOverlay": False,
        "spawn": [0, 64, 0],
        "north_direction": 0,
    }
    config = {
        "CONST": {"tileSize": TILE_SIZE},
        "worlds": ["world"],
        "map": {"north_direction": "upper-left"},
        "tilesets": [tileset],
    }
    return f"var overviewerConfig = {json.dumps(config, indent=4)};\n"
