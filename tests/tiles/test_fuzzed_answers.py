"""Headers and images that nobody would think of: each has a verdict, or one clear line."""

from __future__ import annotations

import io
from random import Random
from typing import Final

from hypothesis import example, given
from PIL import Image as Pillow

from tests.fuzz import assert_told, damaged, fuzzed
from tests.tiles.test_images import webp_of
from tileharvest.tiles.images import identify, is_transparent


def drawn(kind: str, mode: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    picture = Pillow.frombytes("RGB", (24, 24), Random(kind).randbytes(3 * 24 * 24)).convert(mode)
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


IMAGES: Final = [
    drawn("PNG", "RGBA"),
    drawn("PNG", "P"),
    drawn("PNG", "RGB", dpi=(72, 72)),
    drawn("JPEG", "RGB"),
    drawn("JPEG", "L", progressive=True),
    drawn("WEBP", "RGB"),
    drawn("WEBP", "RGBA", lossless=True),
    webp_of(24, 24),
]


@fuzzed(1_500)
@given(damaged(IMAGES))
@example(IMAGES[0][:33])
def test_any_damaged_image_is_whole_or_refused_in_a_line(body: bytes) -> None:
    try:
        image = identify(body, (24, 24))
    except ValueError as error:
        assert_told(error)
    else:
        assert image.size == len(body)
    is_transparent(body)
