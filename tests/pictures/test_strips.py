"""Pictures written strip by strip, read by Pillow: it checks every checksum of a PNG."""

from __future__ import annotations

import io
import random
import struct
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
