"""A mosaic: an excerpt of a map as one picture, which may be larger than the memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from PIL import Image as Pillow

from tileharvest.errors import ConfigurationError
from tileharvest.export.excerpt import PixelBox, nothing_there
from tileharvest.export.target import ending_of, made_whole
from tileharvest.pictures.composer import composing
from tileharvest.pictures.pixels import background as background_in
from tileharvest.pictures.pixels import on_ground
from tileharvest.pictures.threads import drawing_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Executor
    from pathlib import Path

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.target import GrowingFile, Watch
    from tileharvest.pictures.composer import Composition
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import Tile, TileRange

    Row: TypeAlias = Mapping[Tile, Callable[[], Pillow.Image | None]]
    """The tiles of a row that show something, each with the function that draws it."""


_BAND: Final = 40 << 20
"""The most bytes of a band of RGBA, unless a single line has more. 384 lines of 24,576 pixels have 38
million. In a wider picture a row of tiles has several bands, and its tiles are drawn once for each band."""
_USUAL_MOST_PIXELS: Final = 1_000_000_000
"""The most pixels of a picture for which nobody gives a zoom or a number: 82 x 82 tiles of 384."""
_MOST_KEPT: Final = 6_000_000
"""The most pixels of a WebP that is packed with the usual method in 300 MB of memory, even of noise."""


class PictureFormat(NamedTuple):
    """A format of pictures."""

    name: str
    """Pillow's name of the format."""
    longest: int
    """The most pixels along an edge."""
    most_pixels: int | None
    """The most pixels that can be packed in 300 MB of memory, or None for a format that is packed line by
    line."""
    is_opaque: bool
    quality: int | None = None
    """The quality if none is asked for, of a format with loss."""

    def misfit(self, width: int, height: int, most_pixels: int | None) -> str | None:
        """Returns why a picture of this size cannot be made, or None if it can."""
        pixels = width * height
        if max(width, height) > self.longest:
            return f"{self.name} ends at {self.longest:,} pixels"
        if self.most_pixels is not None and pixels > self.most_pixels:
            return f"{self.name} is packed in memory as a whole, and ends at {self.most_pixels:,} pixels here"
        if most_pixels is not None and pixels > most_pixels:
            return f"--max-pixels allows {most_pixels:,}"
        return None


_WIDEST: Final = 4_000_000
"""The most pixels along an edge of a picture that may be larger than memory. A band has at least one line."""
_PNG: Final = PictureFormat("PNG", _WIDEST, None, is_opaque=False)
_JPEG: Final = PictureFormat("JPEG", 65_500, None, is_opaque=True, quality=90)
_TIFF: Final = PictureFormat("TIFF", _WIDEST, None, is_opaque=False)
FORMATS: Final = {
    ".png": _PNG,
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
    # Pillow's encoder takes 8 to 10 bytes for a pixel.
    ".webp": PictureFormat("WEBP", 16_383, 16_000_000, is_opaque=True, quality=90),
    # Pillow's encoder takes 22 bytes for a pixel, and 27 for one of noise.
    ".avif": PictureFormat("AVIF", 65_535, 6_000_000, is_opaque=True, quality=75),
    ".tif": _TIFF,
    ".tiff": _TIFF,
}
"""The formats by the ending of a file's name, in small letters."""


def format_of(path: Path) -> PictureFormat:
    """Returns the format that the name's ending says. Raises ConfigurationError for any other ending."""
    return FORMATS[ending_of(path, FORMATS, "a picture")]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The plan of a picture: the pixels of a zoom that it shows, and the format of the file."""

    excerpt: Excerpt
    zoom: int
    box: PixelBox
    format: PictureFormat
    misfit: str
    """The reason why the picture is not of a deeper zoom, or an empty text."""

    def in_words(self) -> str:
        """Returns a line about the picture that will be made."""
        return (
            f"{self.excerpt.in_words()}, zoom {self.zoom}: {self.box.width:,} x {self.box.height:,} pixels"
            f"{self.misfit and f'; {self.misfit}'}"
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
        }


def sheet_of(excerpt: Excerpt, path: Path, zoom: int | None, most_pixels: int | None) -> Sheet:
    """Returns the plan of a picture at the zoom, or at the deepest zoom that fits if none is given.

    Raises ConfigurationError if nothing was there, or if the picture does not fit. The error names the zoom
    that fits.
    """
    chosen = format_of(path)
    most = _USUAL_MOST_PIXELS if zoom is None and most_pixels is None else most_pixels
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
            return Sheet(excerpt, candidate, box, chosen, why)
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
    ground: tuple[int, int, int] | None,
    quality: int | None = None,
) -> None:
    """Writes a picture whose rows of tiles are drawn by `row`, as bands of RGBA from top to bottom.

    Without a `ground`, a colour behind the bands, the picture is as transparent as the bands, if its format
    allows that. Raises OSError if the file cannot be written, TileHarvestError, and what the rows raise.
    """
    chosen, box = sheet.format, sheet.box
    target.watch.expects(box.height)
    with drawing_threads() as pool, TemporaryFile(dir=target.target.parent) as pixels:
        for band in _bands(box, sheet.zoom, sheet.excerpt.tile_size, row, pool):
            if chosen.is_opaque or ground is not None:
                flat = on_ground(band, ground or background_in(None))
                pixels.write(flat.convert("RGBA").tobytes())
            else:
                pixels.write(band.tobytes())
            target.passed(band.height)
        pixels.flush()
        mode, size = "RGBX" if chosen.is_opaque else "RGBA", (box.width, box.height)
        # The system reads what Pillow needs of the file, and keeps as much of it as the memory has room for.
        mapped: Any = mmap(pixels.fileno(), 0, access=ACCESS_READ)
        whole = Pillow.frombuffer(mode, size, mapped, "raw", mode, 0, 1)
        more: dict[str, Any] = {"quality": quality or chosen.quality} if chosen.quality else {}
        if chosen.name == "AVIF":
            # Speed 8 takes a tenth of the time of the usual 6, and a tenth more bytes.
            more["speed"] = 8
        elif chosen.name == "WEBP" and box.width * box.height > _MOST_KEPT:
            # The usual method 4 keeps symbols in memory, 25 bytes for a pixel of noise. Method 0 takes 8, and
            # a fifth more bytes.
            more["method"] = 0
        elif chosen.name == "TIFF":
            # From 4 GiB on TIFF needs wider numbers. What cannot be packed takes a little more than it has.
            is_big = box.width * box.height * 4 >= 4_000_000_000
            more |= {"compression": "tiff_adobe_deflate", "big_tiff": is_big}
        whole.save(target.file, chosen.name, **more)


def _bands(
    box: PixelBox,
    zoom: int,
    size: tuple[int, int],
    row: Callable[[TileRange], Row],
    pool: Executor,
) -> Iterator[Pillow.Image]:
    """Yields the picture of a box from top to bottom, in bands of RGBA. No band is higher than a tile.

    `size` is a tile's width and height. `row` is asked for each row of tiles, once for each of its bands, and
    the pool draws what it returns. The picture is transparent where no tile shows anything. Each band is let
    go of before the next one is made: a caller that does the same holds one of them in memory.
    """
    height = size[1]
    most_lines = max(1, _BAND // (4 * box.width))
    top = box.top
    while top < box.bottom:
        bottom = min(box.bottom, (top // height + 1) * height, top + most_lines)
        band = PixelBox(box.left, top, box.right, bottom)
        yield _drawn(band, size, row(band.tiles(zoom, size)), pool)
        top = bottom


def _drawn(band: PixelBox, size: tuple[int, int], tiles: Row, pool: Executor) -> Pillow.Image:
    (width, height), canvas = size, Pillow.new("RGBA", (band.width, band.height))

    def paste(tile: Tile, draw: Callable[[], Pillow.Image | None]) -> None:
        image = draw()
        if image is not None:
            canvas.paste(image, (tile.column * width - band.left, tile.row * height - band.top))

    # Whatever fails is raised here, and nothing is pasted into a band that was handed out.
    for _ in pool.map(paste, tiles.keys(), tiles.values()):
        pass
    return canvas
