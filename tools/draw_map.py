#!/usr/bin/env python3
"""Draws a harvested map as it was on some days, side by side. The README's pictures are made with it.

    draw_map.py NAME OUT.png --day 2026-11-18 --day 2026-11-20 [--zoom -1] [--height 600]

It reads the history and the store that TILEHARVEST_DATA names, or those in data/.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from datetime import date
from pathlib import Path

from PIL import Image

from tileharvest.history.database import History
from tileharvest.history.recorded_versions import tile_versions
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.versions import Image as StoredImage

Picture = dict[Tile, StoredImage]
Frame = tuple[int, int, int, int]
"""The left, right, bottom and top edge, in grid units."""
MARGIN = 12
"""Pixels between two days."""


def picture_of(history: History, name: str, zoom: int, day: date) -> Picture:
    """Returns the images of one zoom on that day: each tile's latest version until then, if not `gone`."""
    shown: Picture = {}
    for recorded in tile_versions(history, name):
        if recorded.tile.zoom == zoom and recorded.version.day <= day:
            shown.pop(recorded.tile, None)
            if recorded.version.image is not None:
                shown[recorded.tile] = recorded.version.image
    return shown


def drawn(picture: Picture, store: FileStore, frame: Frame, background: str) -> Image.Image:
    """Draws the tiles of a picture in their places. The frame's edges are centres of tiles."""
    left, right, bottom, top = frame
    step = 2 * next(iter(picture)).reach
    canvas: Image.Image | None = None
    size = 0
    for tile, stored in picture.items():
        with Image.open(io.BytesIO(store.get(stored))) as opened:
            image = opened.convert("RGBA")
        if canvas is None:
            size = image.width
            across, down = (right - left) // step + 1, (top - bottom) // step + 1
            canvas = Image.new("RGBA", (across * size, down * size), background)
        canvas.alpha_composite(image, ((tile.x - left) // step * size, (top - tile.y) // step * size))
    assert canvas is not None
    return canvas


def frame_around(pictures: list[Picture]) -> Frame:
    """Returns the outermost centres of all tiles that are shown."""
    tiles = [tile for picture in pictures for tile in picture]
    columns, rows = [tile.x for tile in tiles], [tile.y for tile in tiles]
    return min(columns), max(columns), min(rows), max(rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name")
    parser.add_argument("out", type=Path)
    parser.add_argument("--day", type=date.fromisoformat, action="append", required=True)
    parser.add_argument("--zoom", type=int, default=-1)
    parser.add_argument("--height", type=int, default=600)
    parser.add_argument("--background", default="#1a1a1a")
    options = parser.parse_args()
    data = Path(os.environ.get("TILEHARVEST_DATA", "data"))
    with History.open_read_only(f"sqlite:///{data / 'history.sqlite'}") as history:
        pictures = [picture_of(history, options.name, options.zoom, day) for day in options.day]
    frame = frame_around(pictures)
    days = [drawn(picture, FileStore(data / "tiles"), frame, options.background) for picture in pictures]
    width = round(days[0].width * options.height / days[0].height)
    sheet = Image.new("RGB", ((width + MARGIN) * len(days) - MARGIN, options.height), "white")
    for number, day in enumerate(days):
        sheet.paste(day.convert("RGB").resize((width, options.height)), (number * (width + MARGIN), 0))
    sheet.save(options.out, optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
