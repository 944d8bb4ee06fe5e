"""A generated Overviewer site of any size: a full quadtree of small PNG files, no two of them alike."""

from __future__ import annotations

import itertools
import json
import os
import struct
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAYER: Final = "world-lighting"
TILE_SIZE: Final = 384
"""Pixels along an edge, as Overviewer's tiles have."""
_RENDERED_AT: Final = 1_704_067_200
"""The time of the first file, in seconds since 1970: 2024-01-01 in UTC. Each file is a second newer than the
one before."""


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


def generate(folder: Path, depth: int) -> None:
    """Writes the site, in about half a millisecond per file. `folder` must not exist."""
    folder.mkdir(parents=True)
    (folder / "overviewerConfig.js").write_text(config(depth), encoding="utf-8")
    for level in range(depth):
        for digits in itertools.product("0123", repeat=level):
            (folder / LAYER / "/".join(digits)).mkdir(parents=True, exist_ok=True)
    for number, path in enumerate((f"{LAYER}/base.png", *tile_paths(depth))):
        (folder / path).write_bytes(image(number))
        os.utime(folder / path, (_RENDERED_AT + number, _RENDERED_AT + number))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


# Each pixel is one bit, and all bits are 0: the one colour of the palette.
_HEADER: Final = struct.pack(">IIBBBBB", TILE_SIZE, TILE_SIZE, 1, 3, 0, 0, 0)
_START: Final = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", _HEADER)
_PIXELS: Final = zlib.compress(b"\0" * (1 + TILE_SIZE // 8) * TILE_SIZE, 9)
_END: Final = _chunk(b"IDAT", _PIXELS) + _chunk(b"IEND", b"")


def image(number: int) -> bytes:
    """Returns a PNG of about 120 bytes. Its one colour is the number: below 2^24 no two are alike."""
    return _START + _chunk(b"PLTE", number.to_bytes(3, "big")) + _END


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
    whole = {
        "CONST": {"tileSize": TILE_SIZE},
        "worlds": ["world"],
        "map": {"north_direction": "upper-left"},
        "tilesets": [tileset],
    }
    return f"var overviewerConfig = {json.dumps(whole, indent=4)};\n"
