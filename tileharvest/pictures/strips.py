"""Files of pictures that may be larger than the memory: PNG, TIFF and JPEG, written strip by strip.

A strip consists of some whole lines of the picture. Packing takes most of the time, and depends on one strip
alone, so several strips are packed at once. `add` and `end` write in order. The forms are those of PNG (W3C,
third edition), TIFF 6.0 with its supplement for Deflate, BigTIFF (libtiff's `BigTIFFDesign`) and JPEG (ITU-T
T.81).
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING, Final, Protocol

from PIL import Image as Pillow
from PIL import ImageChops

from tileharvest.pictures.threads import each_in_order

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Executor
    from typing import BinaryIO

    Packed = tuple[bytes, int, int]
    """The compressed bytes of a strip, and the Adler-32 and the length of the bytes before compression."""

_LEVEL: Final = 1
"""The level of zlib. Level 1 takes half the time of level 6, for a tenth more bytes."""
_ADLER: Final = 65_521
_UNDER_WAY: Final = 16 << 20
"""Bytes of strips in RGBA that are packed at once."""
_CLASSIC: Final = (1 << 32) - (1 << 24)
"""The most bytes of a TIFF before its directory. A larger one is a BigTIFF, because a TIFF's offsets have 32
bits."""


_DIRECTORY: Final = 512
"""Bytes that a TIFF's header and directory take at most, without the offsets and lengths of the strips."""
_OFFSETS: Final = 16
"""Bytes of the offset and the length of a strip, in a BigTIFF."""


class StripFile(Protocol):
    """A file that is written in strips. Each strip but the last has `lines` lines."""

    lines: int

    def packed(self, strip: Pillow.Image) -> Packed:
        """Returns a strip as `add` takes it. May be called by several threads."""
        ...

    def add(self, packed: Packed) -> None: ...

    def end(self) -> None: ...


def write_strips(file: StripFile, width: int, strips: Iterable[Pillow.Image], pool: Executor) -> None:
    """Writes strips of this width in their order. Raises OSError, and what the strips raise."""
    # With two a strip is packed while the next one is drawn.
    most = max(2, _UNDER_WAY // (4 * width * file.lines))
    for packed in each_in_order(pool, file.packed, strips, most):
        file.add(packed)
    file.end()


class PngFile:
    """A PNG of 8 bits per channel, RGB or RGBA."""

    def __init__(self, file: BinaryIO, width: int, height: int, mode: str) -> None:
        self._file = file
        self._adler = (1, 0)
        self.lines = _lines(width)
        file.write(b"\x89PNG\r\n\x1a\n")
        colour = 6 if mode == "RGBA" else 2
        self._chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
        # zlib's format begins with a window of 32 kB and the fastest level.
        self._chunk(b"IDAT", b"\x78\x01")

    def packed(self, strip: Pillow.Image) -> Packed:
        pixels = memoryview(_differences(strip).tobytes())
        stride = strip.width * len(strip.getbands())
        deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        body, adler = [], 1
        for start in range(0, len(pixels), stride):
            # Each line begins with the number of its filter, which is 1, `Sub`.
            for part in (b"\1", pixels[start : start + stride]):
                body.append(deflate.compress(part))
                adler = zlib.adler32(part, adler)
        # A flushed stream of Deflate ends with a whole byte, so the next stream may follow it.
        body.append(deflate.flush(zlib.Z_SYNC_FLUSH))
        return b"".join(body), adler, len(pixels) + strip.height

    def add(self, packed: Packed) -> None:
        body, adler, length = packed
        # The sum of both parts follows from the sums of each, as in zlib's adler32_combine.
        low, high = self._adler
        self._adler = (
            (low + (adler & 0xFFFF) - 1) % _ADLER,
            (high + (adler >> 16) + length * (low - 1)) % _ADLER,
        )
        self._chunk(b"IDAT", body)

    def end(self) -> None:
        low, high = self._adler
        # An empty last block of Deflate and the sum over all lines end the stream.
        self._chunk(b"IDAT", b"\x03\x00" + struct.pack(">HH", high, low))
        self._chunk(b"IEND", b"")

    def _chunk(self, name: bytes, body: bytes) -> None:
        self._file.write(struct.pack(">I", len(body)) + name)
        self._file.write(body)
        self._file.write(struct.pack(">I", zlib.crc32(body, zlib.crc32(name))))


class TiffFile:
    """A TIFF of 8 bits per channel, RGB or RGBA, compressed by Deflate; a BigTIFF beyond 4 GB."""

    def __init__(
        self, file: BinaryIO, width: int, height: int, mode: str, most_classic: int = _CLASSIC
    ) -> None:
        self._file = file
        self._size = width, height
        self._channels = len(mode)
        self._most_classic = most_classic
        self._strips: list[tuple[int, int]] = []
        """The offset and the length of each strip in the file."""
        self.lines = _lines(width)
        # Header and directory are written at the end, into this room: Pillow does not find a directory that
        # lies beyond 4 GB.
        file.write(bytes(_DIRECTORY + _OFFSETS * -(-height // self.lines)))

    def packed(self, strip: Pillow.Image) -> Packed:
        return zlib.compress(_differences(strip).tobytes(), _LEVEL), 0, 0

    def add(self, packed: Packed) -> None:
        self._strips.append((self._file.tell(), len(packed[0])))
        self._file.write(packed[0])

    def end(self) -> None:
        is_big = self._file.tell() > self._most_classic
        long = 16 if is_big else 4
        starts, lengths = zip(*self._strips, strict=True)
        (width, height), channels = self._size, self._channels
        fields: list[tuple[int, int, tuple[int, ...]]] = [
            (256, 4, (width,)),
            (257, 4, (height,)),
            (258, 3, (8,) * channels),
            (259, 3, (8,)),  # compression: Deflate
            (262, 3, (2,)),  # RGB
            (273, long, starts),
            (277, 3, (channels,)),
            (278, 4, (self.lines,)),
            (279, long, lengths),
            (317, 3, (2,)),  # each pixel as its difference to the one before
        ]
        if channels == 4:
            fields.append((338, 3, (2,)))  # opacity, not multiplied into the colours
        self._write_directory(fields, is_big=is_big)

    def _write_directory(self, fields: list[tuple[int, int, tuple[int, ...]]], *, is_big: bool) -> None:
        offset, count = ("<Q", "<Q") if is_big else ("<I", "<H")
        room, start = struct.calcsize(offset), 16 if is_big else 8
        # The values that have no room in the rows follow behind them.
        rows, beyond = b"", b""
        behind = start + struct.calcsize(count) + len(fields) * (4 + 2 * room) + room
        behind += -behind % 8
        for tag, kind, values in fields:
            body = struct.pack(f"<{len(values)}{_LETTERS[kind]}", *values)
            if len(body) > room:
                body, where = struct.pack(offset, behind + len(beyond)), body
                beyond += where + bytes(-len(where) % 8)
            rows += struct.pack("<HH", tag, kind) + struct.pack(offset, len(values)) + body.ljust(room, b"\0")
        head = struct.pack("<2sHHH", b"II", 43, 8, 0) if is_big else struct.pack("<2sH", b"II", 42)
        whole = head + struct.pack(offset, start)
        whole += struct.pack(count, len(fields)) + rows + struct.pack(offset, 0)
        self._file.seek(0)
        self._file.write(whole.ljust(behind, b"\0") + beyond)


_LETTERS: Final = {3: "H", 4: "I", 16: "Q"}
"""The letters of `struct` for TIFF's numbers of types: SHORT, LONG and LONG8."""


class JpegFile:
    """A baseline JPEG.

    Each strip is packed as a JPEG of its own. All have the same tables. A restart marker, after which the
    coding begins anew, stands between any two rows of blocks, so the rows of one strip can follow those of
    another.
    """

    lines = 128
    """Eight rows of blocks of 16 lines, because restart markers are numbered from 0 to 7."""

    def __init__(self, file: BinaryIO, height: int, quality: int) -> None:
        self._file = file
        self._height = height
        self._quality = quality
        self._is_begun = False

    def packed(self, strip: Pillow.Image) -> Packed:
        body = io.BytesIO()
        strip.save(body, "JPEG", quality=self._quality, subsampling="4:2:0", restart_marker_rows=1)
        return body.getvalue(), 0, 0

    def add(self, packed: Packed) -> None:
        body = packed[0]
        size, scan = _frame_and_scan(body)
        if not self._is_begun:
            self._is_begun = True
            # The height of the whole picture replaces that of the first strip.
            self._file.write(body[:size] + struct.pack(">H", self._height) + body[size + 2 : scan])
        else:
            self._file.write(b"\xff\xd7")
        # The last two bytes are the marker of the end.
        self._file.write(memoryview(body)[scan:-2])

    def end(self) -> None:
        self._file.write(b"\xff\xd9")


def _frame_and_scan(jpeg: bytes) -> tuple[int, int]:
    """Returns the offset of the height in a baseline JPEG's frame header, and the offset of its coded
    pixels."""
    # A segment consists of a marker of two bytes, its length, which includes itself, and its content.
    height, at = 0, 2
    while jpeg[at + 1] != 0xDA:
        if jpeg[at + 1] == 0xC0:
            height = at + 5
        at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
    return height, at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")


def _lines(width: int) -> int:
    """Returns the lines of a strip of 4 MB in RGBA: from 1 to 64."""
    return max(1, min(64, (4 << 20) // (4 * width)))


def _differences(strip: Pillow.Image) -> Pillow.Image:
    """Returns an image of the differences between each pixel and the pixel on its left, modulo 256. Areas of
    one colour become zeros. This is PNG's filter `Sub`, and TIFF's predictor 2."""
    shifted = Pillow.new(strip.mode, strip.size)
    shifted.paste(strip, (1, 0))
    return ImageChops.subtract_modulo(strip, shifted)
