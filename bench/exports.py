"""Exports: mosaics in strips, a difference, a restored tree, an archive, a published page, and films."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from hashlib import sha1
from multiprocessing import get_context
from random import Random
from typing import TYPE_CHECKING, Any, Final

from PIL import Image as Pillow
from rich.table import Table

from bench import viewed_history
from bench.cost import run
from bench.harvest import PROJECT
from bench.site import LAYER, TILE_SIZE, generate
from tileharvest.history.costs import Cost as Spent
from tileharvest.history.database import History
from tileharvest.history.harvest_row import Beginning
from tileharvest.history.harvests import begin
from tileharvest.history.schema import FINISHED
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.results import TileResult
from tileharvest.tiles.versions import Image, Validator

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
FRAMES: Final = 300
"""Days of the map that is filmed. On each one but the first `_BUSY` tiles change."""
_FILMED: Final = (10, 6)
"""Its tiles along both edges, of 384 pixels: a film of 1080p shows them half as large, composed."""
_BUSY: Final = 4
_VERSIONS: Final = 1_000_000
"""Of the history that is published."""


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
    target = folder / "export.pmtiles"
    cost = _scrapy(folder, "archive", "bench", str(target))
    made["archive, .pmtiles"] = cost, target.stat().st_size
    made["publish, 1,000,000 versions"] = _published(folder)
    made |= _films(folder, drawn)
    pixels = (TILE_SIZE << depth) ** 2 // 1_000_000
    table = Table("command", "s", "CPU s", "RSS MB", "MB made", title=f"Exports of {pixels:,} million pixels")
    for what, (cost, size) in made.items():
        table.add_row(what, f"{cost.wall:.1f}", f"{cost.cpu:.1f}", f"{cost.rss:.0f}", f"{size / 1e6:.0f}")
    console.print(table)
    return {what: {"bytes": size, **asdict(cost)} for what, (cost, size) in made.items()}


def _published(folder: Path) -> tuple[Cost, int]:
    """Measures a published page of 325 days, whose versions share 400 images: its lists are what costs."""
    # In a process of its own: what is measured begins with the memory of this one.
    with ProcessPoolExecutor(1, get_context("spawn")) as apart:
        apart.submit(viewed_history.generate, folder / "publish-data", _VERSIONS).result()
    target = folder / "export-page"
    cost = _scrapy(folder, "publish", "bench", str(target), data="publish-data")
    return cost, sum(file.stat().st_size for file in (target / "lists").rglob("*.js"))


def _films(folder: Path, drawn: list[bytes]) -> dict[str, tuple[Cost, int]]:
    """Measures a film of 300 frames at 1080p in each form for which that is usual."""
    data, chance = folder / "film-data", Random(2)  # noqa: S311 - the same changes each time
    columns, rows = _FILMED
    store = FileStore(data / "tiles")
    images = [Image(sha1(body, usedforsecurity=False).hexdigest(), "png", len(body)) for body in drawn]
    for image, body in zip(images, drawn, strict=True):
        store.put({image: body})
    described = Layer(LAYER, Pyramid(5), "png", tile_size=(TILE_SIZE, TILE_SIZE))
    every = [Tile.at(0, column, row) for column in range(columns) for row in range(rows)]
    with History.open(f"sqlite:///{data / 'history.sqlite'}") as history:
        for number in range(FRAMES):
            day = date(2024, 1, 1) + timedelta(days=number)
            started = datetime(day.year, day.month, day.day, tzinfo=UTC)
            harvest = begin(history, Beginning("bench", str(day), day, started, "overviewer", [described]))
            chosen = chance.sample(every, _BUSY) if number else every
            outcome = Outcome.UPDATED if number else Outcome.ADDED
            harvest.record(
                [_result(tile, outcome, chance.choice(images)) for tile in chosen],
                Spent(_BUSY),
            )
            harvest.finish(started, FINISHED, settle_gone=True)
    made = {}
    for ending in ("mp4", "webm", "webp"):
        target = folder / f"export-film.{ending}"
        cost = _scrapy(folder, "film", "bench", str(target), data="film-data")
        made[f"film, .{ending}"] = cost, target.stat().st_size
    return made


def _result(tile: Tile, outcome: Outcome, image: Image) -> TileResult:
    return TileResult(LAYER, tile, outcome, image, None, Validator('"1"', None))


def _terrain(chance: Random) -> bytes:
    """Returns a tile of about 45 kB, as detailed ones of Overviewer are."""
    colours = [chance.randbytes(3) + b"\xff" for _ in range(24)]
    cells = TILE_SIZE // 2
    pixels = b"".join(chance.choices(colours, k=cells * cells))
    image = Pillow.frombytes("RGBA", (cells, cells), pixels)
    body = io.BytesIO()
    image.resize((TILE_SIZE, TILE_SIZE), Pillow.Resampling.NEAREST).save(body, "PNG")
    return body.getvalue()


def _scrapy(folder: Path, *arguments: str, data: str = "export-data") -> Cost:
    places = {
        "TILEHARVEST_MAPS": str(folder / "export.toml"),
        "TILEHARVEST_DATA": str(folder / data),
    }
    command = [sys.executable, "-m", "scrapy", *arguments]
    return run(command, folder / "export.log", PROJECT, places, on_all_cores=True)
