"""A mosaic: an excerpt of a map as one picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tileharvest.errors import ConfigurationError, counted
from tileharvest.export.excerpt import nothing_there
from tileharvest.export.picture_file import USUAL_MOST_PIXELS, format_of, write_picture
from tileharvest.export.target import made_whole
from tileharvest.pictures.bands import PixelBox, bands
from tileharvest.pictures.composer import composing
from tileharvest.pictures.threads import drawing_threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from PIL import Image as Pillow

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.picture_file import PictureFormat
    from tileharvest.export.target import GrowingFile, Watch
    from tileharvest.pictures.bands import Row
    from tileharvest.pictures.composer import Composition
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import TileRange


@dataclass(frozen=True, slots=True)
class Sheet:
    """The plan of a picture: the pixels of a zoom that it shows, and the format of the file."""

    excerpt: Excerpt
    zoom: int
    box: PixelBox
    format: PictureFormat
    images: int
    """The number of images that the picture is made of."""
    misfit: str
    """The reason why the picture is not of a deeper zoom, or an empty text."""

    def in_words(self) -> str:
        """Returns a line about the picture that will be made."""
        return (
            f"{self.excerpt.in_words()}, zoom {self.zoom}: {self.box.width:,} x {self.box.height:,} pixels of"
            f" {counted(self.images, 'image')}{self.misfit and f'; {self.misfit}'}"
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
            "images": self.images,
        }


def sheet_of(excerpt: Excerpt, path: Path, zoom: int | None, most_pixels: int | None) -> Sheet:
    """Returns the plan of a picture at the zoom, or at the deepest zoom that fits if none is given.

    Raises ConfigurationError if nothing was there, or if the picture does not fit. The error names the zoom
    that fits.
    """
    chosen = format_of(path)
    most = USUAL_MOST_PIXELS if zoom is None and most_pixels is None else most_pixels
    why = ""
    for candidate in excerpt.zooms():
        if zoom is not None and candidate > zoom:
            continue
        box = excerpt.box(candidate)
        if box is None:
            continue
        found = chosen.misfit(box.width, box.height, most)
        if found is None:
            if why and zoom is not None:
                raise ConfigurationError(
                    f"{why}; nothing was made; --zoom {candidate} fits: {box.width:,} x {box.height:,}"
                )
            # A difference also shows tiles that were there only on the first day.
            images = excerpt.images(candidate, box.tiles(candidate, excerpt.tile_size))
            return Sheet(excerpt, candidate, box, chosen, images, why)
        why = why or f"zoom {candidate} has {box.width:,} x {box.height:,} pixels, and {found}"
    if why:
        raise ConfigurationError(f"{why}; nothing was made; no zoom fits: choose a smaller --area")
    raise nothing_there(excerpt)


def write_mosaic(
    sheet: Sheet,
    path: Path,
    store: TileStore,
    watch: Watch,
    background: tuple[int, int, int] | None = None,
    *,
    quality: int | None = None,
    most_bytes: int | None = None,
) -> tuple[int, int]:
    """Writes the picture. Returns the file's bytes, and the number of images that cannot be read.

    The file has at most `most_bytes`, or is not made. Several threads read the store. Raises
    TileHarvestError.
    """
    past = sheet.excerpt.past(sheet.zoom)
    assert past is not None

    def draw(part: Composition | str) -> Pillow.Image | None:
        return composer.image(past, part)[0]

    def row(area: TileRange) -> Row:
        return {tile: partial(draw, part) for tile, part in composer.parts(past, area).items()}

    with made_whole(path, watch, most_bytes) as target, composing(store) as composer:
        write_sheet(sheet, target, row, background, quality)
    return path.stat().st_size, len(composer.unreadable)


def write_sheet(
    sheet: Sheet,
    target: GrowingFile,
    row: Callable[[TileRange], Row],
    background: tuple[int, int, int] | None,
    quality: int | None = None,
) -> None:
    """Writes a picture whose rows of tiles are drawn by `row`. Raises what `write_picture` raises."""
    begun: set[int] = set()

    def watched(area: TileRange) -> Row:
        target.passed(int(area.y_from not in begun))
        begun.add(area.y_from)
        return row(area)

    target.watch.expects(len(sheet.box.tiles(sheet.zoom, sheet.excerpt.tile_size).rows))
    with drawing_threads() as pool:
        drawn = bands(sheet.box, sheet.zoom, sheet.excerpt.tile_size, watched, pool)
        write_picture(target, (sheet.box.width, sheet.box.height), drawn, background, quality)
