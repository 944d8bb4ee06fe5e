"""The difference of an excerpt between two days, as a picture and as a list."""

from __future__ import annotations

import csv
import io
import json
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from PIL import Image, ImageChops, ImageDraw, ImageEnhance

from tileharvest.export.excerpt import PixelBox
from tileharvest.export.mosaic import write_sheet
from tileharvest.export.target import made_whole
from tileharvest.history.areas import MOST_COLUMNS
from tileharvest.history.recorded_versions import differences
from tileharvest.pictures.composer import composing
from tileharvest.pictures.pixels import stored
from tileharvest.renderers.xyz import is_on_earth, latitude_of
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import Ground

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.mosaic import Row, Sheet
    from tileharvest.export.target import Watch
    from tileharvest.pictures.composer import Composition, PastLayer
    from tileharvest.store.port import TileStore

LISTS: Final = (".json", ".csv")
"""The endings of files for lists."""
_COLUMNS: Final = 16
"""The columns of tiles whose differences are in memory at once. They have 16,000 tiles of a square map of
1,000,000."""

_FADED: Final = 0.25
"""The share of its colours that an unchanged place keeps. It keeps twice that share of its contrast."""
_PAPER: Final = 128
"""The grey to which unchanged places fade."""
_SMALLEST_OUTLINED: Final = 3
"""The least pixels along the edge of a tile that gets an outline. A smaller tile would be nothing but
outline."""
_COLOURS: Final = {"new": (0, 200, 60, 255), "gone": (230, 30, 30, 255)}
"""The colours of the outlines. Changed tiles have no outline: they are the only ones with their own
colours."""


class Difference(NamedTuple):
    """A tile of the deepest zoom that has changed between the two days."""

    tile: Tile
    change: str
    """`changed`, `new` or `gone`."""
    before: str | None
    """The name in the store of the image before, or None if there was none."""
    now: str | None


def differences_in(excerpt: Excerpt, area: TileRange) -> Iterator[Difference]:
    """Yields the changed tiles of an area between the excerpt's first day and its last, in columns from left
    to right. May be called by several threads. Raises HistoryError."""
    for part in area.slices(MOST_COLUMNS):
        found = differences(excerpt.history, excerpt.layer.id, part, excerpt.first, excerpt.last)
        for tile, (before, now) in sorted(found.items()):
            change = "new" if before is None else "gone" if now is None else "changed"
            yield Difference(tile, change, before, now)


def all_differences(excerpt: Excerpt) -> Iterator[Difference]:
    """Yields the changed tiles of the whole excerpt, of the deepest zoom that the map kept by the first day.
    Memory holds some columns of them."""
    zoom = excerpt.zooms()[0]
    box = excerpt.box(zoom)
    if box is not None:
        for part in box.tiles(zoom, excerpt.tile_size).slices(_COLUMNS):
            yield from differences_in(excerpt, part)


def changed_pixels(excerpt: Excerpt, store: TileStore) -> tuple[int, PixelBox | None]:
    """Returns how many pixels of the deepest zoom differ between the first day and the last, and the box
    around them, or None if none does.

    Unpacks two images for each changed tile. Raises HistoryError, and one of `UNREADABLE`.
    """
    (width, height), count, boxes = excerpt.tile_size, 0, []
    for one in all_differences(excerpt):
        before, now = (
            Image.new("RGBA", (width, height)) if name is None else stored(store, name, (width, height))
            for name in (one.before, one.now)
        )
        differing = reduce(ImageChops.lighter, ImageChops.difference(before, now).split())
        if (box := differing.getbbox()) is not None:
            count += width * height - differing.histogram()[0]
            left, top = one.tile.column * width, one.tile.row * height
            boxes.append((left + box[0], top + box[1], left + box[2], top + box[3]))
    if not boxes:
        return 0, None
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return count, PixelBox(min(lefts), min(tops), max(rights), max(bottoms))


def write_difference(
    sheet: Sheet,
    path: Path,
    store: TileStore,
    watch: Watch,
    background: tuple[int, int, int] | None,
    *,
    most_bytes: int | None = None,
) -> tuple[int, int]:
    """Writes a picture with changed tiles in their colours, all others faded, and outlines around new and
    gone ones.

    Returns the file's bytes, and the number of images that cannot be read. The file has at most `most_bytes`,
    or is not made. Raises TileHarvestError.
    """
    excerpt = sheet.excerpt
    zoom, factor, size = excerpt.zooms()[0], excerpt.layer.factor, excerpt.tile_size
    days = excerpt.past(sheet.zoom, excerpt.first), excerpt.past(sheet.zoom)

    def image(past: PastLayer | None, part: Composition | str | None) -> Image.Image | None:
        return None if past is None or part is None else composer.image(past, part)[0]

    def row(area: TileRange) -> Row:
        cells: dict[Tile, dict[Tile, str]] = {}
        for one in differences_in(excerpt, area.at_zoom(zoom, factor)):
            above = one.tile.ancestor(zoom - sheet.zoom, factor)
            cells.setdefault(above, {})[one.tile] = one.change
        before, now = ({} if past is None else composer.parts(past, area) for past in days)

        def draw(tile: Tile) -> Image.Image:
            its = cells.get(tile, {})
            old = image(days[0], before.get(tile)) if "gone" in its.values() else None
            return _difference_of(tile, old, image(days[1], now.get(tile)), its, factor, size)

        return {tile: partial(draw, tile) for tile in {*now, *cells} if tile in area}

    with made_whole(path, watch, most_bytes) as target, composing(store) as composer:
        write_sheet(sheet, target, row, background)
    return path.stat().st_size, len(composer.unreadable)


def _difference_of(
    tile: Tile,
    before: Image.Image | None,
    now: Image.Image | None,
    changes: Mapping[Tile, str],
    factor: int,
    size: tuple[int, int],
) -> Image.Image:
    """Returns the picture of a tile, in RGBA.

    `before` and `now` are the tile's images on both days. `changes` has the tiles within it that have
    changed, of a deeper zoom or of its own. A place that is gone shows what was there before.
    """
    whole = Image.new("RGBA", size) if now is None else _faded(now)
    draw = ImageDraw.Draw(whole)
    for cell, change in changes.items():
        left, top, right, bottom = edges = _edges(tile, cell, factor, size)
        source = before if change == "gone" else now
        if source is not None:
            whole.paste(source.crop(edges), edges[:2])
        side = min(right - left, bottom - top)
        if change in _COLOURS and side >= _SMALLEST_OUTLINED:
            box = left, top, right - 1, bottom - 1
            draw.rectangle(box, outline=_COLOURS[change], width=max(1, side // 48))
    return whole


def _faded(image: Image.Image) -> Image.Image:
    """Returns an image of RGBA with faded colours. Its opacity stays."""
    red, green, blue, opacity = ImageEnhance.Color(image).enhance(_FADED).split()
    pale = [channel.point(_PALER) for channel in (red, green, blue)]
    return Image.merge("RGBA", (*pale, opacity))


_PALER: Final = [round(_PAPER + (value - _PAPER) * 2 * _FADED) for value in range(256)]


def _edges(tile: Tile, cell: Tile, factor: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Returns left, top, right and bottom of a deeper tile, in pixels of the tile in which it lies."""
    across = factor ** (cell.zoom - tile.zoom)
    column, row = cell.column - tile.column * across, cell.row - tile.row * across
    (width, height), left, top = size, column * size[0] // across, row * size[1] // across
    right, bottom = (column + 1) * width // across, (row + 1) * height // across
    return left, top, max(right, left + 1), max(bottom, top + 1)


def write_list(excerpt: Excerpt, path: Path, watch: Watch, most_bytes: int | None = None) -> int:
    """Writes a list of the changed tiles, with their blocks, in the format that the file's name says. Returns
    the file's bytes. Raises TileHarvestError."""
    rows = (_row(excerpt, one) for one in all_differences(excerpt))
    with made_whole(path, watch, most_bytes) as target:
        text = io.TextIOWrapper(target.file, "utf-8", newline="")
        if path.suffix.lower() == ".csv":
            writer = csv.DictWriter(text, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        else:
            # Row by row, so that memory never holds all of them.
            text.write("[")
            for number, row in enumerate(rows):
                text.write(("," if number else "") + "\n" + json.dumps(row))
            text.write("\n]\n")
        text.flush()
        text.detach()
    return path.stat().st_size


COLUMNS: Final = ("tile", "change", "west", "north", "east", "south", "before", "now")
"""The columns of a list. `west`, `north`, `east` and `south` are the outermost whole blocks of the tile, or
degrees on a map of the earth. `before` and `now` are the names of images in the store."""


def _row(excerpt: Excerpt, one: Difference) -> dict[str, Any]:
    described = excerpt.described
    edges: list[float | None] = [None] * 4
    if described.projection is not None:
        ground = Ground.of(TileRange.of(one.tile), excerpt.layer.factor)
        edges = [*ground.blocks(described.projection)]
        if is_on_earth(described, excerpt.map.renderer):
            west, north, east, south = ground.places(described.projection)
            edges = [round(value, 7) for value in (west, latitude_of(north), east, latitude_of(south))]
    return dict(zip(COLUMNS, (str(one.tile), one.change, *edges, one.before, one.now), strict=True))
