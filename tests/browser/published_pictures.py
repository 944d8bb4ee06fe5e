"""What published maps show around a place, composed of their files with Pillow alone.

The formulas are those of the renderers' own pages. They are written down in pixels of the deepest images, and
know nothing of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import asinh, ceil, floor, pi, radians, tan
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageChops, ImageStat

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Point = tuple[float, float]
"""Pixels of the deepest images, to the right and downwards."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """How a renderer has drawn a layer."""

    size: tuple[int, int]
    """An image's width and height in pixels, as far as it is the picture."""
    point: Callable[[float, float], Point]
    """Where a place is drawn: east and south in blocks, or in degrees."""
    file: Callable[[int, int, int], str]
    """The image of a level, column and row; level 0 is the deepest."""
    factor: int = 2

    def around(
        self, site: Path, place: Point, level: int, size: tuple[int, int], behind: tuple[int, ...]
    ) -> Image.Image:
        """Returns what the published files show around a place, on a ground of that colour."""
        x, y = self.point(*place)
        scale, (width, height) = self.factor**level, self.size
        left, top = x / scale - size[0] / 2, y / scale - size[1] / 2
        canvas = Image.new("RGBA", size, (*behind, 255))
        for column in range(floor(left / width), ceil((left + size[0]) / width)):
            for row in range(floor(top / height), ceil((top + size[1]) / height)):
                file = site / self.file(level, column, row)
                if file.exists():
                    picture = Image.open(file).convert("RGBA").crop((0, 0, width, height))
                    corner = round(column * width - left), round(row * height - top)
                    canvas.paste(picture, corner, picture)
        return canvas.convert("RGB")


def blocks_of_a_pixel(east: float, south: float) -> Point:
    return east, south


def _squaremap(level: int, column: int, row: int) -> str:
    return f"tiles/minecraft_overworld/{3 - level}/{column}_{row}.png"


def _pl3xmap(level: int, column: int, row: int) -> str:
    return f"tiles/minecraft-the_end/{level}/basic/{column}_{row}.png"


def _bluemap(level: int, column: int, row: int) -> str:
    """`pathFromCoords` of `Utils.js`: each digit but the last is a folder."""
    x, z = (("-" if number < 0 else "") + "/".join(str(abs(number))) for number in (column, row))
    return f"maps/world/tiles/{level + 1}/x{x}/z{z}.png"


def _unmined(level: int, column: int, row: int) -> str:
    return f"tiles/zoom.{-level}/{column // 10}/{row // 10}/tile.{column}.{row}.jpeg"


def _on_dynmap(east: float, south: float) -> Point:
    """The first two rows of the map's `worldtomap` lead to pixels to the right and upwards.

    Row 0 is the tile that ends at the origin.
    """
    right, up = 2 * east, -2 * south
    return right, 128 - up


def _dynmap(level: int, column: int, row: int) -> str:
    """X and Y are always counted in deepest tiles, and Y grows upwards (`dynmaputils.js`)."""
    x, y = column << level, -(row << level)
    letters = f"{'z' * level}_" if level else ""
    return f"tiles/world_nether/flat/{x >> 5}_{y >> 5}/{letters}{x}_{y}.png"


def _on_earth(longitude: float, latitude: float) -> Point:
    """The formula of "Slippy map tilenames", for zoom 7 and images of 384 pixels."""
    width = 384 * 2**7
    north = asinh(tan(radians(latitude))) / pi
    return (longitude + 180) / 360 * width, (1 - north) / 2 * width


def _plain(level: int, column: int, row: int) -> str:
    return f"{7 - level}/{column}/{row}.png"


def _on_top_down(east: float, south: float) -> Point:
    """`TopdownRenderView` of `mapcrafterui.js`: 3 x 16 blocks are 288 pixels."""
    middle = 288 * 2**6 / 2
    return 6 * east + middle, 6 * south + middle


def _top_down(level: int, column: int, row: int) -> str:
    return f"map_myworld_topdown_day/tl/{_digits(6 - level, column, row)}.png"


def _on_isometric(east: float, south: float) -> Point:
    """`mcToLatLng` of version 1's page, at height 64: textures have 12 pixels, and a tile 384."""
    middle = 384 * 2**8 / 2
    across, down = east + south, south - east + 2 * (256 - 64)
    return 12 * across - 16 * 12 + middle, 6 * down + middle


def _isometric(level: int, column: int, row: int) -> str:
    return f"map_backs_DSM/tl/{_digits(8 - level, column, row)}.png"


def _on_side(east: float, south: float) -> Point:
    """`SideRenderView.mcToLatLng` of Mapcrafter's page, at height 64.

    3 x 16 blocks are 576 pixels wide, and the map is moved by four tiles.
    """
    width, height = 576 * 2**3, 384 * 2**3
    return 12 * east + width / 2, 8 * (south - 1) + 8 * (255 - 64) + height / 2 - 4 * 384


def _side(level: int, column: int, row: int) -> str:
    return f"map_island/tl/{_digits(3 - level, column, row)}.png"


def _digits(zoom: int, column: int, row: int) -> str:
    """`getTileUrl` of `mapcrafterui.js`: 1 + x + 2 y of each zoom, from the coarsest."""
    return "/".join(str(1 + (column >> step & 1) + 2 * (row >> step & 1)) for step in reversed(range(zoom)))


def _island(level: int, column: int, row: int) -> str:
    return f"tiles/minecraft-overworld/{level}/basic/{column}_{row}.png"


ISLAND: Final = Drawing((512, 512), blocks_of_a_pixel, _island)
"""The demo's in the form of Pl3xMap."""
SQUAREMAP: Final = Drawing((512, 512), blocks_of_a_pixel, _squaremap)
PL3XMAP: Final = Drawing((512, 512), blocks_of_a_pixel, _pl3xmap)
BLUEMAP: Final = Drawing((500, 500), blocks_of_a_pixel, _bluemap, factor=5)
UNMINED: Final = Drawing((256, 256), blocks_of_a_pixel, _unmined)
DYNMAP: Final = Drawing((128, 128), _on_dynmap, _dynmap)
PLAIN: Final = Drawing((384, 384), _on_earth, _plain)
TOP_DOWN: Final = Drawing((288, 288), _on_top_down, _top_down)
SIDE: Final = Drawing((576, 384), _on_side, _side)
"""The demo's in the form of Mapcrafter's side view."""
ISOMETRIC: Final = Drawing((384, 384), _on_isometric, _isometric)


def difference(shown: Image.Image, published: Image.Image, right: int = 0, down: int = 0) -> float:
    """By how much a picture differs on average, of 255, from a part of a larger one.

    The part lies so many pixels beside the middle.
    """
    left, top = (published.width - shown.width) // 2 + right, (published.height - shown.height) // 2 + down
    part = published.crop((left, top, left + shown.width, top + shown.height))
    return sum(ImageStat.Stat(ImageChops.difference(shown, part)).mean) / 3
