"""Bands of a mosaic, beside the same picture put together by Pillow as a whole."""

import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
from PIL import Image

from tileharvest.export.excerpt import PixelBox
from tileharvest.export.mosaic import bands
from tileharvest.tiles.grid import Tile, TileRange

SIZE: Final = (12, 8)
AREA: Final = TileRange(-1, -6, 6, -10, 2)
"""Columns -2 to 1, rows -1 to 2."""


@pytest.fixture(scope="module")
def images() -> dict[Tile, Image.Image]:
    """Every tile but one has noise of its own."""
    chance = random.Random(2)
    tiles = [tile for tile in AREA if tile != Tile(-1, 2, -2)]
    return {tile: Image.frombytes("RGBA", SIZE, chance.randbytes(4 * SIZE[0] * SIZE[1])) for tile in tiles}


def whole(images: Mapping[Tile, Image.Image]) -> Image.Image:
    """The area's picture: column -2 begins at its left edge, and row -1 at its top."""
    canvas = Image.new("RGBA", (4 * SIZE[0], 4 * SIZE[1]))
    for tile, image in images.items():
        # At zoom -1 a tile is four units wide.
        canvas.paste(image, ((tile.x + 6) // 4 * SIZE[0], (2 - tile.y) // 4 * SIZE[1]))
    return canvas


@pytest.mark.parametrize(
    ("edges", "most_bytes"), [((0, 0, 48, 32), 1), ((5, 3, 40, 31), 700), ((13, 9, 14, 10), 1 << 20)]
)
def test_a_box_is_cut_out_of_the_tiles_whatever_the_memory(
    images: dict[Tile, Image.Image], edges: tuple[int, int, int, int], most_bytes: int
) -> None:
    left, top, right, bottom = edges
    box = PixelBox(left - 24, top - 8, right - 24, bottom - 8)

    def row(tiles: TileRange) -> Mapping[Tile, Callable[[], Image.Image | None]]:
        return {tile: lambda image=image: image for tile, image in images.items() if tile in tiles}

    with ThreadPoolExecutor(3) as pool:
        found = list(bands(box, -1, SIZE, row, pool, most_bytes))
    assert all(4 * band.width * band.height <= max(most_bytes, 4 * band.width) for band in found)
    joined = b"".join(band.tobytes() for band in found)
    assert joined == whole(images).crop(edges).tobytes()
