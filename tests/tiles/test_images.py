"""What counts as a whole image; the truth is Pillow's writing and the sha1sum of the same bytes."""

import hashlib
import io
import zlib
from random import Random
from typing import Any, Final

import pytest
from hypothesis import example, given
from PIL import Image as Pillow

from tests.fuzz import assert_told, damaged, fuzzed
from tileharvest.tiles.images import identify, is_transparent, size_of
from tileharvest.tiles.versions import Image

KINDS = {"PNG": "png", "JPEG": "jpg", "WEBP": "webp"}


def saved(image: Pillow.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def encoded(kind: str) -> bytes:
    return saved(Pillow.effect_noise((64, 64), 60).convert("RGB"), kind)


def test_flipped_bytes_and_too_many_are_refused_and_the_rest_of_a_longer_file_is_not():
    """Dynmap 0.29 wrote a shorter image into the same file, and left the old end where it was."""
    body = encoded("PNG")
    sha1 = hashlib.new("sha1", body).hexdigest()
    assert identify(body) == Image(sha1, "png", len(body))
    assert identify(body + body[-40:]).size == len(body) + 40
    with pytest.raises(ValueError, match=f"has {len(body):,} bytes, and 1,000 are the most"):
        identify(body, None, 1000)
    flipped = bytearray(body)
    flipped[len(body) // 2] ^= 0xFF
    with pytest.raises(ValueError, match="damaged"):
        identify(bytes(flipped))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [1, 2, 100, 0.5])
def test_image_that_is_cut_off_is_refused(kind, missing):
    """A WebP may end in a byte of padding that nobody needs."""
    body = encoded(kind)
    kept = len(body) - missing if missing >= 1 else int(len(body) * (1 - missing))
    if (kind, missing) != ("WEBP", 1):
        with pytest.raises(ValueError, match=r"the answer|the image"):
            identify(body[:kept])


CLEAR: Final = Pillow.new("RGBA", (128, 128))
DOTTED: Final = CLEAR.copy()
DOTTED.putpixel((127, 127), (0, 0, 0, 1))


@pytest.mark.parametrize(
    ("body", "is_so"),
    [
        (saved(CLEAR, "PNG"), True),
        (saved(CLEAR.convert("LA"), "PNG"), True),
        (saved(Pillow.new("P", (128, 128)), "PNG", transparency=0), True),
        (saved(CLEAR, "WEBP", lossless=True), True),
        (saved(DOTTED, "PNG"), False),
        (saved(CLEAR, "PNG")[:60], False),
        (b"<html>", False),
        *((encoded(kind), False) for kind in KINDS),
    ],
)
def test_an_image_without_anything_to_see_is_transparent(body, is_so):
    assert is_transparent(body) is is_so


def png_of(side: int, kind: bytes) -> bytes:
    """A small PNG whose header says that it is of this size, and of this kind of pixels."""
    body = saved(Pillow.new("RGB", (16, 16)), "PNG")
    header = b"IHDR" + side.to_bytes(4) * 2 + kind
    return body[:12] + header + zlib.crc32(header).to_bytes(4) + body[33:]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no bytes"),
        # No pixels, then 3 bits of a sample, and an unknown compression and filter.
        (encoded("PNG")[:33] + encoded("PNG")[-12:], "not a PNG, JPEG or WebP"),
        *(
            (png_of(16, kind), "not a PNG, JPEG or WebP")
            for kind in (b"\x03\x02\0\0\0", b"\x08\x02\1\0\0", b"\x08\x02\0\1\0")
        ),
        (b"<!DOCTYPE html><html><body>404</body></html>", "HTML"),
        (b"\n  <html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git-LFS pointer"),
        (b"just words", "not a PNG, JPEG or WebP"),
        (encoded("GIF"), "not a PNG, JPEG or WebP"),
    ],
)
def test_body_that_is_no_image_is_refused_with_what_it_is(body, message):
    with pytest.raises(ValueError, match=message):
        identify(body)


def webp_of(width: int, height: int) -> bytes:
    """36 bytes that say they are an image of one colour, of this size: a lossless WebP (RFC 9649)."""
    sides = (width - 1) | (height - 1) << 14
    data = b"\x2f" + sides.to_bytes(4, "little") + b"\x88\x88\x08" + bytes(8)
    chunk = b"VP8L" + len(data).to_bytes(4, "little") + data
    return b"RIFF" + (len(chunk) + 4).to_bytes(4, "little") + b"WEBP" + chunk


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("width", "height", "is_one"),
    [
        *((*sides, False) for sides in ((95, 384), (384, 95), (1537, 384), (384, 1537))),
        # A quarter to four times the tile's size; BlueMap's images have the heights below the picture.
        *((*sides, True) for sides in ((96, 96), (1536, 1536), (384, 768))),
    ],
)
def test_an_image_is_held_against_the_size_of_the_layers_tiles(kind, width, height, is_one):
    body = saved(Pillow.new("RGB", (width, height)), kind)
    if is_one:
        assert identify(body, (384, 384)).extension == KINDS[kind]
        return
    with pytest.raises(ValueError, match=rf"has {width:,} x {height:,} pixels, and the tiles .* 384 x 384"):
        identify(body, (384, 384))


@pytest.mark.parametrize("side", [9_400, 13_300, 16_384])
@pytest.mark.parametrize("tile_size", [None, (384, 384), (16_384, 16_384)])
def test_a_small_file_of_many_pixels_is_refused_before_it_is_decoded(side, tile_size, monkeypatch):
    # Opening a WebP unpacks it: then it is too late.
    monkeypatch.setattr(Pillow, "open", None)
    for body in (webp_of(side, side), png_of(side, b"\x08\x02\0\0\0")):
        for read in (lambda one: identify(one, tile_size), size_of):
            with pytest.raises(ValueError, match="pixels, and 8,388,608 are the most"):
                read(body)


def jpeg_of(width: int, height: int) -> bytes:
    """A small JPEG whose header says that it is of this size."""
    before, marker, after = saved(Pillow.new("RGB", (16, 16)), "JPEG").partition(b"\xff\xc0")
    assert marker
    # Behind the marker come the length of the header, 2 bytes, and the bits of a sample, 1 byte.
    return before + marker + after[:3] + height.to_bytes(2) + width.to_bytes(2) + after[7:]


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_the_size_of_a_webp_is_read_as_pillow_reads_it(lossless, mode):
    for size in ((1, 1), (300, 7), (7, 300)):
        body = saved(Pillow.new(mode, size, "#12345678"), "WEBP", lossless=lossless)
        with pytest.raises(ValueError, match=f"has {size[0]} x {size[1]} pixels, and the tiles"):
            identify(body, (5000, 5000))


def jpeg_of_scans(scans: int) -> bytes:
    """A JPEG to which scans of few bytes were added, each of which goes through all pixels again."""
    body = saved(Pillow.new("RGB", (64, 64), "#5a783c"), "JPEG", progressive=True)
    last = body.rindex(b"\xff\xda")
    return body[:-2] + body[last:-2] * (scans - body.count(b"\xff\xda")) + b"\xff\xd9"


def test_a_jpeg_of_many_scans_is_refused_before_it_is_decoded(monkeypatch):
    assert identify(jpeg_of_scans(100)).extension == "jpg"
    monkeypatch.setattr(Pillow, "open", None)
    with pytest.raises(ValueError, match="has 24,000 scans, and 100 are the most"):
        identify(jpeg_of_scans(24_000))


EMPTY_CHUNK = b"\0\0\0\0abCd" + zlib.crc32(b"abCd").to_bytes(4)


@pytest.mark.parametrize(
    ("kind", "place", "part"),
    [
        ("PNG", 33, EMPTY_CHUNK),
        ("PNG", 33, b"\0\0\0\0IDAT" + zlib.crc32(b"IDAT").to_bytes(4)),
        ("JPEG", 2, b"\xff\xe9\0\2"),
        ("JPEG", 2, b"\xff\xfe\0\3.junk"),
    ],
    ids=["chunks", "chunks of pixels", "segments", "segments and junk"],
)
def test_an_image_of_many_parts_is_refused_before_it_is_opened(kind, place, part, monkeypatch):
    body = encoded(kind)
    assert identify(body[:place] + 9_900 * part + body[place:]).extension == KINDS[kind]
    monkeypatch.setattr(Pillow, "open", None)
    with pytest.raises(ValueError, match="has more than 10,000 chunks or segments"):
        identify(body[:place] + 10_001 * part + body[place:])


def noise(kind: str, mode: str, **options: object) -> bytes:
    picture = Pillow.frombytes("RGB", (24, 24), Random(kind).randbytes(3 * 24 * 24))
    return saved(picture.convert(mode), kind, **options)


IMAGES: Final = [
    *(noise("PNG", "RGBA"), noise("PNG", "P"), noise("PNG", "RGB", dpi=(72, 72))),
    *(noise("JPEG", "RGB"), noise("JPEG", "L", progressive=True)),
    *(noise("WEBP", "RGB"), noise("WEBP", "RGBA", lossless=True), webp_of(24, 24)),
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
