"""Exports of a long history: pictures of a whole map, a restored tree, an archive, a page, films."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bench import long_history
from bench.cost import scrapy
from bench.long_history import DAYS, MAP
from bench.site import TILE_SIZE

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

DEPTH: Final = 6
"""The deepest zoom has 4,096 tiles: a picture of 24,576 x 24,576 pixels."""
_LAST_DAYS: Final = (str(DAYS[-30]), str(DAYS[-1]))
_COMMANDS: Final = {
    "mosaic, .png": ("mosaic", MAP, "mosaic.png", "--zoom", "0"),
    "mosaic, .tif": ("mosaic", MAP, "mosaic.tif", "--zoom", "0"),
    "mosaic, .jpg": ("mosaic", MAP, "mosaic.jpg", "--zoom", "0"),
    "diff, .png": ("diff", MAP, *_LAST_DAYS, "diff.png", "--zoom", "0"),
    "restore": ("restore", MAP, "tree"),
    "archive, .pmtiles": ("archive", MAP, "archive.pmtiles"),
    "film, .mp4": ("film", MAP, "film.mp4"),
    "film, .webm": ("film", MAP, "film.webm"),
    "film, .webp": ("film", MAP, "film.webp"),
    "publish": ("publish", MAP, "page"),
}
"""The commands that are measured. The third word, or the one before the options, is what they make."""


def measure(folder: Path, console: Console, versions: int) -> dict[str, Any]:
    """Measures each command, on all cores, and the size of what it makes."""
    long_history.make(folder, versions, DEPTH)
    found = {}
    for what, words in _COMMANDS.items():
        target = next(folder / word for word in words[2:] if word not in _LAST_DAYS)
        placed = [str(target) if word == target.name else word for word in words]
        cost = scrapy(folder, *placed, on_all_cores=True)
        files = [target] if target.is_file() else [one for one in target.rglob("*") if one.is_file()]
        found[what] = {"bytes": sum(one.stat().st_size for one in files), **asdict(cost)}
    lists = sum(one.stat().st_size for one in (folder / "page").rglob("*") if "lists" in one.parts)
    found["publish"]["bytes of lists"] = lists
    pixels = (TILE_SIZE << DEPTH) ** 2 // 1_000_000
    title = f"Exports of {versions:,} versions, {pixels:,} million pixels"
    table = Table("command", "s", "CPU s", "RSS MB", "MB made", title=title)
    for what, one in found.items():
        figures = (f"{one['wall']:.1f}", f"{one['cpu']:.1f}", f"{one['rss']:.0f}")
        table.add_row(what, *figures, f"{one['bytes'] / 1e6:.1f}")
    console.print(table)
    return found
