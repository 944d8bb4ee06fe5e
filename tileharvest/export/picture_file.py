"""The forms of files for pictures: their endings, their bounds, and how they are written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from PIL import Image as Pillow
from PIL import ImageColor

from tileharvest.errors import ConfigurationError
from tileharvest.export.target import made_whole
from tileharvest.pictures.bands import strips
from tileharvest.pictures.pixels import background
from tileharvest.pictures.strips import JpegFile, PngFile, StripFile, TiffFile, write_strips

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor
    from pathlib import Path
    from typing import BinaryIO

USUAL_MOST_PIXELS: Final = 1_000_000_000
"""The most pixels of a picture for which nobody gives a zoom or a number: 82 x 82 tiles of 384."""

_MOST_KEPT: Final = 6_000_000
"""The most pixels of a WebP that is packed with the usual method in 300 MB of memory, even of noise."""
_QUALITY: Final = {"JPEG": 90, "WEBP": 90, "AVIF": 75}


class Form(NamedTuple):
    """A form of files for pictures."""

    name: str
    """Pillow's name of the form."""
    longest: int
    """The most pixels along an edge."""
    most_pixels: int | None
    """The most pixels that can be packed in 300 MB of memory, for a form that is packed as a whole. None for
    a form that is written in strips."""
    is_opaque: bool


_WIDEST: Final = 4_000_000
"""The most pixels along an edge of a picture that is written in strips. A strip has at least one line, and a
few lines are in memory at once: of so many pixels they take 200 MB."""
_PNG: Final = Form("PNG", _WIDEST, None, is_opaque=False)
_JPEG: Final = Form("JPEG", 65_535, None, is_opaque=True)
_TIFF: Final = Form("TIFF", _WIDEST, None, is_opaque=False)
FORMS: Final = {
    ".png": _PNG,
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
    # Pillow's encoder takes 8 to 10 bytes for a pixel.
    ".webp": Form("WEBP", 16_383, 16_000_000, is_opaque=True),
    # Pillow's encoder takes 22 bytes for a pixel, and 27 for one of noise.
    ".avif": Form("AVIF", 65_535, 6_000_000, is_opaque=True),
    ".tif": _TIFF,
    ".tiff": _TIFF,
}
"""The forms by the ending of a file's name, in small letters."""


class Watch(Protocol):
    """Somebody who is told how an export gets on."""

    def expects(self, parts: int) -> None:
        """Learns how many parts the export has."""

    def passed(self, parts: int = 1) -> None:
        """Learns that so many more parts are done."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """A watch that shows nothing. Before each part it calls `check`, which raises an error if nobody waits
    for the export any more."""

    check: Callable[[], None]

    def expects(self, parts: int) -> None:
        self.check()

    def passed(self, parts: int = 1) -> None:
        self.check()


def form_of(path: Path) -> Form:
    """Returns the form that the name's ending tells. Raises ConfigurationError for any other ending."""
    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise ConfigurationError(
            f"{path.name} is no name of a picture: end it with {', '.join(FORMS)}; nothing was made"
        )
    return form


def misfit(form: Form, width: int, height: int, most_pixels: int | None) -> str | None:
    """Returns why a picture of this size cannot be made, or None if it can."""
    if max(width, height) > form.longest:
        return f"{form.name} ends at {form.longest:,} pixels"
    if form.most_pixels is not None and width * height > form.most_pixels:
        return f"{form.name} is packed in memory as a whole, and ends at {form.most_pixels:,} pixels here"
    if most_pixels is not None and width * height > most_pixels:
        return f"--max-pixels allows {most_pixels:,}"
    return None


def background_of(said: str | None, described: str | None) -> tuple[int, int, int]:
    """Returns the colour where a map shows nothing: the colour that a person has `said`, or else the colour
    that the site describes.

    Raises ConfigurationError if a person has said what is no colour.
    """
    if said is None:
        return background(described)
    try:
        red, green, blue, *_ = ImageColor.getrgb(said)
    except ValueError:
        raise ConfigurationError(
            f"--background {said} is no colour: write it as '#1a1a1a' or black"
        ) from None
    return red, green, blue


def write_picture(
    path: Path,
    size: tuple[int, int],
    bands: Iterator[Pillow.Image],
    pool: Executor,
    ground: tuple[int, int, int] | None = None,
    quality: int | None = None,
) -> int:
    """Writes bands of RGBA, from top to bottom, as a picture in the form that the file's name tells. Returns
    the file's bytes.

    Without a `ground`, a colour behind the bands, the picture is as transparent as the bands, if its form
    allows that. Raises TileHarvestError with one line if the file cannot be written, and what the bands
    raise. After an error there is no file, or the file from before.
    """
    form = form_of(path)
    mode = "RGB" if form.is_opaque or ground is not None else "RGBA"
    flat = bands if mode == "RGBA" else map(partial(on_ground, ground=ground or background(None)), bands)
    with made_whole(path) as file:
        if form in (_PNG, _TIFF, _JPEG):
            _write_in_strips(file, form, size, flat, pool, mode, quality)
        else:
            _write_whole(file, form, size, flat, quality)
        return file.seek(0, os.SEEK_END)


def on_ground(image: Pillow.Image, ground: tuple[int, int, int]) -> Pillow.Image:
    """Returns an image of RGBA on a ground of this colour, in RGB."""
    whole = Pillow.new("RGB", image.size, ground)
    whole.paste(image, mask=image)
    return whole


def _write_in_strips(
    file: BinaryIO,
    form: Form,
    size: tuple[int, int],
    bands: Iterator[Pillow.Image],
    pool: Executor,
    mode: str,
    quality: int | None,
) -> None:
    strip_file: StripFile
    if form is _JPEG:
        strip_file = JpegFile(file, size[1], quality or _QUALITY["JPEG"])
    else:
        strip_file = (PngFile if form is _PNG else TiffFile)(file, *size, mode)
    write_strips(strip_file, size[0], strips(bands, strip_file.lines), pool)


def _write_whole(
    file: BinaryIO, form: Form, size: tuple[int, int], bands: Iterator[Pillow.Image], quality: int | None
) -> None:
    whole, top = Pillow.new("RGB", size), 0
    for band in bands:
        whole.paste(band, (0, top))
        top += band.height
    # Of AVIF's speeds 8 takes a tenth of the time of the usual 6, and a tenth more bytes. WebP's usual method
    # 4 keeps symbols in memory, 25 bytes for a pixel of noise. Method 0 takes 8, and a fifth more bytes.
    more = {"speed": 8} if form.name == "AVIF" else {}
    if form.name == "WEBP" and size[0] * size[1] > _MOST_KEPT:
        more = {"method": 0}
    whole.save(file, form.name, quality=quality or _QUALITY[form.name], **more)
