"""Pictures written strip by strip, read by Pillow: it checks every checksum of a PNG."""

from __future__ import annotations

import io
import random
import struct
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from PIL import Image, ImageFilter

from tileharvest.pictures.bands import strips
from tileharvest.pictures.strips import JpegFile, PngFile, TiffFile, write_strips

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tileharvest.pictures.strips import StripFile

SIZE: Final = (517, 1001)


def noise(mode: str) -> Image.Image:
    channels = len(mode)
    return Image.frombytes(mode, SIZE, random.Random(1).randbytes(channels * SIZE[0] * SIZE[1]))


def bands(image: Image.Image) -> Iterator[Image.Image]:
    """Of heights that no strip has."""
    edges = [0, 1, 400, 401, 999, SIZE[1]]
    for top, bottom in pairwise(edges):
        yield image.crop((0, top, SIZE[0], bottom))


def written(image: Image.Image, make: Callable[[io.BytesIO], StripFile]) -> Image.Image:
    body = io.BytesIO()
    file = make(body)
    with ThreadPoolExecutor(3) as pool:
        write_strips(file, SIZE[0], strips(bands(image), file.lines), pool)
    opened = Image.open(io.BytesIO(body.getvalue()))
    opened.load()
    return opened


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("form", [PngFile, TiffFile])
@pytest.mark.parametrize("is_smooth", [True, False])
def test_lossless_forms_keep_every_pixel(form: type[PngFile | TiffFile], mode: str, is_smooth: bool) -> None:
    image = noise(mode).filter(ImageFilter.GaussianBlur(9)) if is_smooth else noise(mode)
    opened = written(image, lambda body: form(body, *SIZE, mode))
    assert (opened.format, opened.mode, opened.size) == (form.__name__[:-4].upper(), mode, SIZE)
    assert opened.tobytes() == image.tobytes()


def test_a_tiff_that_is_too_large_for_its_offsets_is_a_bigtiff() -> None:
    image, body = noise("RGBA"), io.BytesIO()
    file = TiffFile(body, *SIZE, "RGBA", most_classic=1000)
    with ThreadPoolExecutor(1) as pool:
        write_strips(file, SIZE[0], strips(bands(image), file.lines), pool)
    order, version, width_of_offsets = struct.unpack("<2sHH", body.getvalue()[:6])
    assert (order, version, width_of_offsets) == (b"II", 43, 8)
    assert Image.open(io.BytesIO(body.getvalue())).tobytes() == image.tobytes()


@pytest.mark.repetition
def test_a_tiff_beyond_4_gb_has_each_strip_where_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow reads the directory. To read all pixels would take 4.5 GB of memory."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    width, height = 70_000, 16_000
    with tempfile.TemporaryFile(dir="/var/tmp") as body:
        file = TiffFile(body, width, height, "RGBA")
        random_bytes = random.Random(1).randbytes
        size = width, file.lines
        # A few strips take turns, because to pack each one anew takes minutes.
        strips = [Image.frombytes("RGBA", size, random_bytes(4 * width * file.lines)) for _ in range(5)]
        packed = [file.packed(strip) for strip in strips]
        count, rest = divmod(height, file.lines)
        for number in range(count):
            file.add(packed[number % 5])
        last = strips[0].crop((0, 0, width, rest))
        file.add(file.packed(last))
        file.end()
        opened = Image.open(body)
        # Pillow's decoder cuts a directory's place to 32 bits.
        assert opened.tag_v2.offset < 1 << 32
        offsets, lengths = opened.tag_v2[273], opened.tag_v2[279]
        assert (opened.size, opened.mode, len(offsets)) == ((width, height), "RGBA", count + 1)
        assert offsets[-1] > 1 << 32
        for number in (0, 1, count // 2, count - 1):
            body.seek(offsets[number])
            assert zlib.decompress(body.read(lengths[number])) == differences(strips[number % 5])
        body.seek(offsets[-1])
        assert zlib.decompress(body.read(lengths[-1])) == differences(last)


def differences(strip: Image.Image) -> bytes:
    """TIFF's predictor 2: each value less that of the pixel before."""
    pixels, stride = strip.tobytes(), 4 * strip.width
    lines = (pixels[start : start + stride] for start in range(0, len(pixels), stride))
    return b"".join(
        line[:4] + bytes(now - before & 255 for before, now in zip(line, line[4:], strict=False))
        for line in lines
    )


def test_a_jpeg_has_the_pixels_of_one_that_was_written_at_once() -> None:
    image, whole = noise("RGB").filter(ImageFilter.GaussianBlur(2)), io.BytesIO()
    image.save(whole, "JPEG", quality=90, subsampling="4:2:0")
    opened = written(image, lambda body: JpegFile(body, SIZE[1], 90))
    assert (opened.format, opened.size) == ("JPEG", SIZE)
    assert opened.tobytes() == Image.open(whole).tobytes()


def test_strips_have_one_height_but_for_the_last() -> None:
    image = noise("RGB")
    found = list(strips(bands(image), 128))
    assert [strip.height for strip in found] == [128] * 7 + [105]
    assert b"".join(strip.tobytes() for strip in found) == image.tobytes()


def test_what_fails_in_a_strip_is_raised() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="transpose"):
        write_strips(PngFile(io.BytesIO(), *SIZE, "RGB"), SIZE[0], failing(), pool)


def failing() -> Iterator[Image.Image]:
    yield noise("RGB").crop((0, 0, SIZE[0], 64))
    raise ValueError("transpose")
