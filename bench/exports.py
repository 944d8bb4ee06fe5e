"""Exports: mosaics in each form that is written in strips, a difference, and a restored tree."""

from __future__ import annotations

import io
import sys
from dataclasses import asdict
from random import Random
from typing import TYPE_CHECKING, Any, Final

from PIL import Image
from rich.table import Table

from bench.cost import run
from bench.harvest import PROJECT
from bench.site import LAYER, TILE_SIZE, generate

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from bench.cost import Cost

DEPTH: Final = 6
"""The deepest zoom has 4^6 = 4,096 tiles of 384 pixels: a picture of 24,576 x 24,576."""
_DRAWN: Final = 32
"""Images that differ. To draw them takes longer than to unpack them."""
_CHANGED: Final = 10
"""Each tenth tile of the deepest zoom is another one on the second day."""
_DAYS: Final = ("2024-01-01", "2024-01-02")


def measure(folder: Path, console: Console, depth: int) -> dict[str, Any]:
    """Measures each command on a map of two days, on all cores, and tells the size of what it makes."""
    site = folder / "export-site"
    generate(site, depth)
    (folder / "export.toml").write_text('[bench]\nurl = "https://map.example.net/"\n', encoding="utf-8")
    chance = Random(1)  # noqa: S311 - the same images each time
    drawn = [_terrain(chance) for _ in range(_DRAWN)]
    tiles = sorted((site / LAYER).glob("/".join(["?"] * (depth - 1)) + "/?.png"))
    for day, chosen in zip(_DAYS, (tiles, tiles[::_CHANGED]), strict=True):
        for number, tile in enumerate(chosen):
            # Bytes behind an image's end change its sha1, and what it shows stays.
            tile.write_bytes(drawn[number % _DRAWN] + f"{day} {number:8}".encode())
        _scrapy(folder, "import", "folder", str(site), "bench", "--day", day)
    made: dict[str, tuple[Cost, int]] = {}
    for ending in ("png", "tif", "jpg"):
        target = folder / f"export.{ending}"
        cost = _scrapy(folder, "mosaic", "bench", str(target), "--zoom", "0")
        made[f"mosaic, .{ending}"] = cost, target.stat().st_size
    target = folder / "export-diff.png"
    cost = _scrapy(folder, "diff", "bench", *_DAYS, str(target), "--zoom", "0")
    made["diff, .png"] = cost, target.stat().st_size
    target = folder / "export-tree"
    cost = _scrapy(folder, "restore", "bench", str(target))
    made["restore"] = cost, sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    pixels = (TILE_SIZE << depth) ** 2 // 1_000_000
    table = Table("command", "s", "CPU s", "RSS MB", "MB made", title=f"Exports of {pixels:,} million pixels")
    for what, (cost, size) in made.items():
        table.add_row(what, f"{cost.wall:.1f}", f"{cost.cpu:.1f}", f"{cost.rss:.0f}", f"{size / 1e6:.0f}")
    console.print(table)
    return {what: {"bytes": size, **asdict(cost)} for what, (cost, size) in made.items()}


def _terrain(chance: Random) -> bytes:
    """Returns a tile of about 45 kB, as detailed ones of Overviewer are."""
    colours = [chance.randbytes(3) + b"\xff" for _ in range(24)]
    cells = TILE_SIZE // 2
    pixels = b"".join(chance.choices(colours, k=cells * cells))
    image = Image.frombytes("RGBA", (cells, cells), pixels)
    body = io.BytesIO()
    image.resize((TILE_SIZE, TILE_SIZE), Image.Resampling.NEAREST).save(body, "PNG")
    return body.getvalue()


def _scrapy(folder: Path, *arguments: str) -> Cost:
    places = {
        "TILEHARVEST_MAPS": str(folder / "export.toml"),
        "TILEHARVEST_DATA": str(folder / "export-data"),
    }
    return run([sys.executable, "-m", "scrapy", *arguments], folder / "export.log", PROJECT, places)
