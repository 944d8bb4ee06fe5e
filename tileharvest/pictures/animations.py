"""Files of animated pictures, written frame by frame: WebP, GIF and APNG.

Pillow packs of each frame the part that differs from the frame before, as a picture of its own. The data of
that picture are then put into the animation's container. Packing depends on two frames alone, so several
frames are packed at once, and memory holds a few. The containers are those of Google's WebP container
specification, GIF89a, and PNG (W3C, third edition).
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from typing import TYPE_CHECKING, Final, Protocol

from PIL import Image, ImageChops

from tileharvest.pictures.frames import ANY, Patch
from tileharvest.pictures.threads import each_in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Executor
    from typing import BinaryIO

    from tileharvest.pictures.frames import Box
    from tileharvest.tiles.layers import Size

_CELL: Final = 16
"""Pixels along the edge of a cell. A cell is replaced as a whole, as WebP codes blocks of this size."""
_UNDER_WAY: Final = 4
"""Frames that are packed at once. A whole one of 1080p takes 8 MB, and as much again while it is packed."""


class AnimationFile(Protocol):
    """A file that is written frame by frame."""

    def packed(self, patch: Patch) -> bytes:
        """Returns a patch as `add` takes it. The patch is of RGBA, and transparent where nothing differs from
        the frame before. May be called by several threads."""
        ...

    def add(self, place: Box, packed: bytes, milliseconds: int) -> None:
        """Adds a frame. `place` is the left, top, width and height of its patch."""

    def end(self) -> None: ...


def write_frames(
    file: AnimationFile, size: Size, frames: Iterable[tuple[Sequence[Patch], int]], pool: Executor
) -> None:
    """Writes frames, and then the file's end.

    A frame consists of the parts that differ from the frame before, in RGB, and of the milliseconds for which
    it is shown. Raises OSError, and what the frames raise.
    """

    def packed(frame: tuple[Patch, int]) -> tuple[Box, bytes, int]:
        patch, milliseconds = frame
        return (patch.left, patch.top, *patch.image.size), file.packed(patch), milliseconds

    for place, body, milliseconds in each_in_order(pool, packed, _whole_patches(size, frames), _UNDER_WAY):
        file.add(place, body, milliseconds)
    file.end()


def _whole_patches(size: Size, frames: Iterable[tuple[Sequence[Patch], int]]) -> Iterator[tuple[Patch, int]]:
    """Yields for each frame a single patch, in which all pixels that stay as they are are transparent."""
    canvas: Image.Image | None = None
    for patches, milliseconds in frames:
        before: Image.Image | None = None
        box = _box(size, patches)
        if canvas is None:
            canvas = Image.new("RGB", size)
        else:
            before = canvas.crop(box)
        for patch in patches:
            canvas.paste(patch.image, (patch.left, patch.top))
        yield _patch(before, Patch(*box[:2], canvas.crop(box))), milliseconds


def _box(size: Size, patches: Sequence[Patch]) -> Box:
    """Returns the box of whole cells around all patches. Without a patch it is the first cell."""
    boxes = [(one.left, one.top, one.left + one.image.width, one.top + one.image.height) for one in patches]
    lefts, tops, rights, bottoms = zip(*boxes or [(0, 0, 1, 1)], strict=True)
    right, bottom = (-(-max(edges) // _CELL) * _CELL for edges in (rights, bottoms))
    return (
        min(lefts) // _CELL * _CELL,
        min(tops) // _CELL * _CELL,
        min(right, size[0]),
        min(bottom, size[1]),
    )


def _patch(before: Image.Image | None, after: Patch) -> Patch:
    """Returns the part of a patch that differs from `before`, an image of the same size; the whole patch if
    there was nothing before."""
    image = after.image
    if before is None:
        return after._replace(image=image.convert("RGBA"))
    red, green, blue = ImageChops.difference(before, image).split()
    strongest = ImageChops.lighter(ImageChops.lighter(red, green), blue).point(ANY)
    # The mean of a cell in which a single pixel differs is 255 / 256, which is rounded to 1.
    cells = strongest.reduce(_CELL).point(ANY)
    found = cells.getbbox()
    # If nothing differs a single cell is written: a frame must have pixels.
    left, top, right, bottom = (edge * _CELL for edge in found or (0, 0, 1, 1))
    box = left, top, min(right, image.width), min(bottom, image.height)
    mask = cells.resize((cells.width * _CELL, cells.height * _CELL), Image.Resampling.NEAREST).crop(box)
    part = image.crop(box)
    if found is not None:
        part.putalpha(mask)
    return Patch(after.left + left, after.top + top, part.convert("RGBA"))


class WebpFile:
    """An animated WebP with loss, shown again and again."""

    def __init__(self, file: BinaryIO, size: Size, quality: int) -> None:
        self._file = file
        self._quality = quality
        width, height = size
        file.write(b"RIFF\0\0\0\0WEBP")
        # Animated, and with an alpha channel.
        self._chunk(b"VP8X", struct.pack("<I", 0x12) + _three(width - 1) + _three(height - 1))
        self._chunk(b"ANIM", struct.pack("<IH", 0, 0))

    def packed(self, patch: Patch) -> bytes:
        body = io.BytesIO()
        patch.image.save(body, "WEBP", quality=self._quality, method=2)
        picture = body.getvalue()
        # These chunks are the frame's data. The others tell of a picture that stands alone.
        return b"".join(chunk for name, chunk in _chunks_of_webp(picture) if name in _WEBP_DATA)

    def add(self, place: Box, packed: bytes, milliseconds: int) -> None:
        left, top, width, height = place
        edges = b"".join(map(_three, (left // 2, top // 2, width - 1, height - 1, milliseconds)))
        # The flags of 0 lay it over the frame before, which stays.
        self._chunk(b"ANMF", edges + b"\0" + packed)

    def end(self) -> None:
        size = self._file.tell()
        self._file.seek(4)
        self._file.write(struct.pack("<I", size - 8))
        self._file.seek(size)

    def _chunk(self, name: bytes, body: bytes) -> None:
        self._file.write(name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2))


_WEBP_DATA: Final = (b"ALPH", b"VP8 ", b"VP8L")


def _three(number: int) -> bytes:
    return number.to_bytes(3, "little")


def _chunks_of_webp(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the name of each chunk, and all of its bytes, the header's included."""
    start = 12
    while start < len(picture):
        length = int.from_bytes(picture[start + 4 : start + 8], "little")
        end = start + 8 + length + length % 2
        yield picture[start : start + 4], picture[start:end]
        start = end


class ApngFile:
    """An animated PNG of RGBA, without loss."""

    def __init__(self, file: BinaryIO, size: Size) -> None:
        self._file = file
        self._sequence = self._frames = 0
        file.write(b"\x89PNG\r\n\x1a\n")
        self._chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 6, 0, 0, 0))
        self._control = file.tell()
        self._chunk(b"acTL", bytes(8))

    def packed(self, patch: Patch) -> bytes:
        body = io.BytesIO()
        patch.image.save(body, "PNG", compress_level=6)
        picture, start, data = body.getvalue(), 8, b""
        while start < len(picture):
            length = int.from_bytes(picture[start : start + 4], "big")
            if picture[start + 4 : start + 8] == b"IDAT":
                data += picture[start + 8 : start + 8 + length]
            start += 12 + length
        return data

    def add(self, place: Box, packed: bytes, milliseconds: int) -> None:
        left, top, width, height = place
        # The frame stays, and is laid over the frame before. The first frame replaces whatever there was.
        over = int(self._frames > 0)
        control = struct.pack(">IIIIHHBB", width, height, left, top, milliseconds, 1000, 0, over)
        self._chunk(b"fcTL", self._next() + control)
        if self._frames:
            self._chunk(b"fdAT", self._next() + packed)
        else:
            self._chunk(b"IDAT", packed)
        self._frames += 1

    def end(self) -> None:
        self._chunk(b"IEND", b"")
        # The number of frames stands near the beginning, and is known only now.
        self._file.seek(self._control)
        self._chunk(b"acTL", struct.pack(">II", self._frames, 0))
        self._file.seek(0, io.SEEK_END)

    def _next(self) -> bytes:
        self._sequence += 1
        return struct.pack(">I", self._sequence - 1)

    def _chunk(self, name: bytes, body: bytes) -> None:
        check = zlib.crc32(body, zlib.crc32(name))
        self._file.write(struct.pack(">I", len(body)) + name + body + struct.pack(">I", check))


_TRANSPARENT: Final = 255
"""The number of the transparent colour of a GIF's frame. The frame's own colours have the numbers below."""
_CHOSEN_FROM: Final = 512 * 1024
"""The most pixels from which a frame's colours are chosen. To choose them from a whole frame of 1080p that is
all noise takes 80 MB and 2.4 s of CPU. To choose them from so many pixels takes 20 MB and 0.5 s."""


class GifFile:
    """An animated GIF: 255 colours of its own for each frame, shown again and again."""

    def __init__(self, file: BinaryIO, size: Size) -> None:
        self._file = file
        # The file has no colours that are common to all frames.
        file.write(b"GIF89a" + struct.pack("<HHBBB", *size, 0x70, 0, 0))
        file.write(b"\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0")

    def packed(self, patch: Patch) -> bytes:
        image = patch.image
        flat = _in_few_colours(image.convert("RGB"))
        palette = (flat.getpalette() or [])[: 3 * _TRANSPARENT]
        flat.putpalette(palette + [0] * (3 * 256 - len(palette)))
        flat.paste(_TRANSPARENT, mask=ImageChops.invert(image.getchannel("A")))
        body = io.BytesIO()
        flat.save(body, "GIF", optimize=False, interlace=False)
        picture = body.getvalue()
        # This skips header, screen, 256 colours, and the extensions that Pillow puts before the image.
        start = 13 + 3 * 256
        while picture[start : start + 1] == b"\x21":
            start += 2
            while picture[start]:
                start += 1 + picture[start]
            start += 1
        # The colours of the file become those of the frame, and stand behind its descriptor of ten bytes.
        return picture[13 : 13 + 3 * 256] + picture[start + 10 : -1]

    def add(self, place: Box, packed: bytes, milliseconds: int) -> None:
        # The frame stays, and one colour is transparent. The time is in hundredths of a second.
        control = struct.pack("<BHB", 0x05, min(65_535, round(milliseconds / 10)), _TRANSPARENT)
        self._file.write(b"\x21\xf9\x04" + control + b"\0")
        self._file.write(b"\x2c" + struct.pack("<HHHHB", *place, 0x87) + packed)

    def end(self) -> None:
        self._file.write(b"\x3b")


def _in_few_colours(image: Image.Image) -> Image.Image:
    """Returns an image of RGB in at most 255 colours. An image that has no more keeps its colours exactly."""
    step = math.ceil(math.sqrt(image.width * image.height / _CHOSEN_FROM))
    if step == 1 or image.getcolors(_TRANSPARENT) is not None:
        return _with_chosen_colours(image)
    # Pixels are left out and not blended, because blending makes colours that the frame does not have.
    sample = image.resize((-(-image.width // step), -(-image.height // step)), Image.Resampling.NEAREST)
    return image.quantize(palette=_with_chosen_colours(sample), dither=Image.Dither.NONE)


def _with_chosen_colours(image: Image.Image) -> Image.Image:
    return image.quantize(_TRANSPARENT, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
