"""A mosaic: an excerpt of a map as one picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from tileharvest.errors import ConfigurationError, counted
from tileharvest.export.excerpt import nothing_there
from tileharvest.export.picture_file import (
    USUAL_MOST_PIXELS,
    Form,
    form_of,
    misfit,
    write_picture,
)
from tileharvest.export.target import UNSURE, parts_of
from tileharvest.history.recorded_versions import Reach
from tileharvest.pictures.bands import PixelBox, bands
from tileharvest.pictures.composer import Composer
from tileharvest.pictures.threads import drawing_threads
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from PIL import Image as Pillow

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.picture_file import Watch
    from tileharvest.pictures.composer import Composition
    from tileharvest.store.port import TileStore

_BLANK: Final = 0.01
"""About as many bytes as a pixel takes where nothing is. A JPEG has the most: 0.016."""
_PARTS: Final = 3
"""The number of parts of a picture that are written in order to foretell its size."""
_SAMPLED: Final = 1 / 100
"""The share of a picture's tiles in such a part. A part of a small picture has more tiles."""
_IMAGES: Final = 16
"""The least images of such a part, if a row has so many."""
_PIXELS: Final = 1 << 17
"""The least pixels of such a part, if a row has so many."""
_ROWS: Final = (1 / 2, 1 / 6, 5 / 6, 1 / 3, 2 / 3)
"""The rows from which these parts are chosen, as shares of the picture's height."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The plan of a picture: the pixels of a zoom that it shows, and the form of the file."""

    excerpt: Excerpt
    zoom: int
    box: PixelBox
    form: Form
    source: int
    """The zoom of the images that the picture is made of."""
    there: Reach
    """The number of these images, and how far they reach."""

    @property
    def rows(self) -> int:
        """The number of rows of tiles."""
        return len(self.box.tiles(self.zoom, self.excerpt.tile_size).rows)

    @property
    def weight(self) -> float:
        """The bytes of the images that the picture shows, those of the first day included, and a little for
        each pixel."""
        area = self.box.tiles(self.zoom, self.excerpt.tile_size)
        days = {self.excerpt.first, self.excerpt.last}
        reached = [self.excerpt.reach(self.zoom, area, day) for day in days]
        return sum(one.bytes for one in reached if one) + _BLANK * self.box.width * self.box.height

    def in_words(self) -> str:
        """Returns a line about the picture that will be made."""
        return (
            f"{self.excerpt.in_words()}, zoom {self.zoom}: {self.box.width:,} x {self.box.height:,} pixels of"
            f" {counted(self.there.tiles, 'image')}"
        )

    def as_plain(self) -> dict[str, Any]:
        """Returns the plan as a value of plain types, for `--json`."""
        return {
            "map": self.excerpt.map.name,
            "layer": self.excerpt.layer.name,
            "day": self.excerpt.last.isoformat(),
            "zoom": self.zoom,
            "width": self.box.width,
            "height": self.box.height,
            "images": self.there.tiles,
        }


def sheet_of(excerpt: Excerpt, path: Path, zoom: int | None, most_pixels: int | None) -> Sheet:
    """Returns the plan of a picture at the zoom, or at the deepest zoom that fits if none is given.

    Raises ConfigurationError if nothing was there, or if the picture does not fit. The error names the zoom
    that fits.
    """
    form = form_of(path)
    most = USUAL_MOST_PIXELS if zoom is None and most_pixels is None else most_pixels
    why = ""
    for candidate in excerpt.zooms():
        if zoom is not None and candidate > zoom:
            continue
        box = excerpt.box(candidate)
        if box is None:
            continue
        found = misfit(form, box.width, box.height, most)
        if found is None:
            if why and zoom is not None:
                raise ConfigurationError(f"{why}; --zoom {candidate} fits: {box.width:,} x {box.height:,}")
            area = box.tiles(candidate, excerpt.tile_size)
            # A difference also shows tiles that were there only on the first day.
            there = excerpt.reach(candidate, area) or Reach(area, 0, 0)
            source = excerpt.layer.source_zoom(candidate, excerpt.last)
            assert source is not None
            return Sheet(excerpt, candidate, box, form, source, there)
        why = (
            why
            or f"zoom {candidate} has {box.width:,} x {box.height:,} pixels, and {found}; nothing was made"
        )
    if why:
        raise ConfigurationError(f"{why}; no zoom fits: choose a smaller --area")
    raise nothing_there(excerpt)


def foretold(sheet: Sheet, path: Path, write: Callable[[Sheet, Path], object]) -> tuple[int, int]:
    """Returns about the least and the most bytes of the file that `write` makes of the sheet.

    A few parts of the picture are written. All others are taken to be like these, by the bytes of their
    images. This costs about a thirtieth of the picture, or some tiles if the picture has few. Raises
    TileHarvestError.
    """
    with parts_of(path) as beside:

        def written(part: Sheet) -> int:
            write(part, beside)
            return beside.stat().st_size

        # A pixel beyond the picture tells how long the file's head is.
        beyond = sheet.box.right + sheet.excerpt.tile_size[0]
        head = written(replace(sheet, box=PixelBox(beyond, sheet.box.top, beyond + 1, sheet.box.top + 1)))
        ratios = [max(0, written(part) - head) / part.weight for part in _samples(sheet)]
    least, most = (head + ratio * sheet.weight for ratio in (min(ratios), max(ratios)))
    return int(least * (1 - UNSURE)), int(most * (1 + UNSURE))


def _samples(sheet: Sheet) -> list[Sheet]:
    """Returns three parts of a sheet, each in the middle of the tiles of a row. If few rows have tiles there
    are fewer parts."""
    excerpt, zoom, box, (width, height) = sheet.excerpt, sheet.zoom, sheet.box, sheet.excerpt.tile_size
    factor, whole = excerpt.layer.factor, box.tiles(zoom, excerpt.tile_size)
    images = _IMAGES / float(factor) ** (2 * (sheet.source - zoom))
    columns = ceil(max(_SAMPLED * len(whole), images, _PIXELS / (width * height)))
    lines: dict[int, TileRange] = {}
    # If no other row that is tried has tiles, the uppermost row with tiles is taken.
    first = sheet.there.area.at_zoom(zoom, factor).corners[0].row
    tops = (whole.corners[0].row + int(share * len(whole.rows)) for share in _ROWS)
    for row in (*tops, first):
        line = TileRange.between(
            Tile.at(zoom, whole.corners[0].column, row), Tile.at(zoom, whole.corners[1].column, row)
        )
        there = excerpt.reach(zoom, line) or excerpt.reach(zoom, line, excerpt.first)
        if there is not None and len(lines) < _PARTS:
            lines[row] = there.area.at_zoom(zoom, factor)
    parts = []
    for row, line in (lines or {first: whole}).items():
        left = (line.corners[0].column + line.corners[1].column + 1 - columns) // 2
        left = max(line.corners[0].column, left)
        part = PixelBox(
            max(box.left, left * width),
            max(box.top, row * height),
            min(box.right, (left + columns) * width),
            min(box.bottom, (row + 1) * height),
        )
        parts.append(replace(sheet, box=part))
    return parts


def write_mosaic(
    sheet: Sheet,
    path: Path,
    store: TileStore,
    watch: Watch,
    background: tuple[int, int, int] | None = None,
    *,
    quality: int | None = None,
) -> tuple[int, int]:
    """Writes the picture. Returns the file's bytes, and the number of tiles that are not whole because an
    image cannot be read.

    Several threads read the store. Raises TileHarvestError.
    """
    excerpt = sheet.excerpt
    past = excerpt.past(sheet.zoom)
    assert past is not None
    composer = Composer(store)
    damaged: set[Tile] = set()

    def draw(tile: Tile, part: Composition | str) -> Pillow.Image | None:
        image, is_whole = composer.image(past, part)
        if not is_whole:
            damaged.add(tile)
        return image

    def row(area: TileRange) -> Mapping[Tile, Callable[[], Pillow.Image | None]]:
        watch.passed(int(area.y_from not in begun))
        begun.add(area.y_from)
        return {tile: partial(draw, tile, part) for tile, part in composer.parts(past, area).items()}

    begun: set[int] = set()
    watch.expects(sheet.rows)
    with drawing_threads() as pool:
        try:
            drawn = bands(sheet.box, sheet.zoom, excerpt.tile_size, row, pool)
            size = write_picture(path, (sheet.box.width, sheet.box.height), drawn, pool, background, quality)
        except BaseException:
            composer.stop()
            raise
    return size, len(damaged)
