"""The page's difference against Pillow's: on real tiles of several days, and on small pictures."""

from __future__ import annotations

import base64
import io
import itertools
import random
from typing import TYPE_CHECKING, Final

import pytest
from PIL import Image

from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    Pairs = list[tuple[bytes | None, bytes | None]]
    Compare = Callable[[Pairs], list[tuple[list[int], float, Image.Image]]]

CELL: Final = 8
THRESHOLD: Final = 5.0
PAIRS: Final = 24
"""Of tiles that changed from one version of the real map to the next."""
UNSURE: Final = 0.5
"""How far from the threshold Pillow, which rounds what is half transparent, surely decides the same."""


@pytest.fixture(scope="module")
def compare(module_page: Page) -> Compare:
    """Have the page decode pairs of picture files, compare them and draw the difference.

    Of large pictures the drawing is a single pixel: tests look at small ones.
    """

    def compare(pairs: Pairs) -> list[tuple[list[int], float, Image.Image]]:
        addresses = [[file and as_address(file) for file in pair] for pair in pairs]
        return [
            (
                list(base64.b64decode(answer["changed"])),
                answer["share"],
                Image.frombytes("RGBA", tuple(answer["size"]), base64.b64decode(answer["drawing"])),
            )
            for answer in module_page.evaluate(_COMPARING, addresses)
        ]

    return compare


@pytest.fixture(scope="module")
def real_pairs(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[bytes, bytes]]:
    """Tiles of the real map as they were before and after they changed."""
    folders = [
        published(shared_maps, "antworld", version, tmp_path_factory.mktemp("antworld"))
        for version in (1, 2, 3, 4)
    ]
    pairs = []
    for earlier, later in itertools.pairwise(folders):
        for file in sorted(earlier.rglob("*.png")):
            before, after = file.read_bytes(), later / file.relative_to(earlier)
            if after.exists() and before != after.read_bytes() and picture(before).width == 384:
                pairs.append((before, after.read_bytes()))
    return random.Random(6).sample(pairs, PAIRS)


def test_cells_of_real_tiles_change_where_pillow_says_so(
    compare: Compare, real_pairs: list[tuple[bytes, bytes]]
) -> None:
    sure, shares = 0, []
    for (before, after), (changed, share, _) in zip(real_pairs, compare(list(real_pairs)), strict=True):
        distances = distances_of(picture(before), picture(after))
        for cell, distance in zip(changed, distances, strict=True):
            if abs(distance - THRESHOLD) > UNSURE:
                assert bool(cell) == (distance > THRESHOLD)
                sure += 1
        assert share == pytest.approx(sum(changed) / 48**2)
        shares.append(share)
    assert sure > 0.99 * PAIRS * 48**2
    # Neither nothing nor everything.
    assert 0.05 < sum(shares) / PAIRS < 0.95


def test_the_drawing_has_what_changed_in_colour_with_a_line_around_it_and_the_rest_faded(
    compare: Compare,
) -> None:
    before = Image.new("RGBA", (48, 48), (30, 160, 60, 255))
    after = before.copy()
    after.paste((200, 120, 40, 255), (0, 16, 16, 32))
    after.paste((0, 0, 0, 0), (32, 32, 48, 48))
    old, new = encoded(before), encoded(after)
    (cells, _, changed), (_, _, gone) = compare([(old, new), (old, None)])
    wanted = {*((row, column) for row in (2, 3) for column in (0, 1)), (4, 4), (4, 5), (5, 4), (5, 5)}
    assert {divmod(number, 6) for number, cell in enumerate(cells) if cell} == wanted
    assert changed.getpixel((8, 24)) == (200, 120, 40, 255)
    # Along the picture's edge there is no line.
    line = [changed.getpixel(place) == (255, 0, 200, 255) for place in ((15, 24), (8, 16), (0, 24), (32, 40))]
    assert line == [True, True, False, True]
    red, green, blue, opacity = changed.getpixel((24, 8))  # type: ignore[misc]
    assert red == green == blue
    assert 0 < opacity < 128
    for drawing in (changed, gone):
        red, green, blue, opacity = drawing.getpixel((42, 42))  # type: ignore[misc]
        assert red > blue > green
        assert opacity > 128


def distances_of(before: Image.Image, after: Image.Image) -> list[float]:
    """How far the average colours, or opacities, of each cell lie apart, row by row."""
    first, second = averages_of(before), averages_of(after)
    return [
        max(sum(abs(a - b) for a, b in zip(old[:3], new[:3], strict=True)) / 3, abs(old[3] - new[3]))
        for old, new in zip(first, second, strict=True)
    ]


def averages_of(image: Image.Image) -> list[tuple[float, ...]]:
    """Red, green and blue on black, and the opacity, of each cell on average."""
    black = Image.alpha_composite(Image.new("RGBA", image.size, "black"), image).convert("RGB")
    # In floating point, as whole numbers would be rounded. Cells at the edges are reduced by what they have.
    bands = [band.convert("F").reduce(CELL) for band in (*black.split(), image.getchannel("A"))]
    return list(zip(*(band.get_flattened_data() for band in bands), strict=True))


def picture(file: bytes) -> Image.Image:
    return Image.open(io.BytesIO(file)).convert("RGBA")


def encoded(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def as_address(file: bytes) -> str:
    kind = "png" if file.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(file).decode()}"


_COMPARING: Final = """async (pairs) => {
  const { difference, drawDifference } = await import("/difference.js");
  const pixels = async (address) => {
    if (address === null) return null;
    const picture = new Image();
    picture.src = address;
    await picture.decode();
    const canvas = new OffscreenCanvas(picture.width, picture.height);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(picture, 0, 0);
    return context.getImageData(0, 0, picture.width, picture.height);
  };
  const text = (bytes) => {
    let characters = "";
    for (const byte of bytes) characters += String.fromCharCode(byte);
    return btoa(characters);
  };
  const answers = [];
  for (const [first, second] of pairs) {
    const [before, after] = [await pixels(first), await pixels(second)];
    const found = difference(before, after);
    const { width, height } = before ?? after;
    const output = width > 64 ? new ImageData(1, 1) : new ImageData(width, height);
    if (width <= 64) drawDifference(before, after, found, output);
    const size = [output.width, output.height];
    answers.push({ share: found.share, size, changed: text(found.changed), drawing: text(output.data) });
  }
  return answers;
}"""
