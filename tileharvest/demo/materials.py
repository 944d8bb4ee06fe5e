"""The materials of the demo's blocks: colours and patterns. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

Colour = tuple[int, int, int]


class Pattern(Enum):
    """The way in which a block's faces are painted."""

    PLAIN = auto()
    TURF = auto()
    """The sides are earth, with grass hanging over their upper edge."""
    PLANKS = auto()
    BRICKS = auto()
    SHINGLES = auto()
    LEAVES = auto()
    LOG = auto()
    WINDOW = auto()
    DOOR = auto()
    FURROWS = auto()
    WATER = auto()
    PLANT = auto()
    """This is no cube but a few stalks on the block below, with a blossom in the colour of `top`."""
    POLE = auto()
    """This is no cube but a thin post."""


@dataclass(frozen=True, slots=True)
class Material:
    """The look of one kind of block."""

    top: Colour
    side: Colour
    grain: float = 0.08
    """The share by which the brightness differs from spot to spot."""
    pattern: Pattern = Pattern.PLAIN

    def __post_init__(self) -> None:
        if not all(0 <= part <= 255 for part in (*self.top, *self.side)) or not 0 <= self.grain < 1:
            raise ValueError(f"{self} has colours or a grain that cannot be painted")

    @property
    def solid(self) -> bool:
        """Whether the block hides what lies behind it."""
        return self.pattern not in (Pattern.PLANT, Pattern.POLE)


WATER_DEPTHS: Final = 7
TURF_SHADES: Final = 5

_EARTH: Final = (136, 98, 68)
_WATER: Final = (
    (121, 205, 214), (95, 187, 210), (74, 167, 203), (60, 148, 194),
    (50, 131, 184), (43, 117, 173), (38, 105, 163),
)  # fmt: skip
_TURF: Final = ((150, 191, 96), (137, 182, 88), (124, 173, 81), (111, 162, 75), (100, 151, 70))
_WALLS: Final[Mapping[str, Material]] = {
    "plaster": Material((236, 228, 210), (236, 228, 210), 0.04),
    "planks": Material((190, 152, 98), (190, 152, 98), 0.06, Pattern.PLANKS),
    "brick": Material((172, 98, 78), (172, 98, 78), 0.08, Pattern.BRICKS),
    "masonry": Material((158, 158, 156), (158, 158, 156), 0.08, Pattern.BRICKS),
    "whitewash": Material((246, 244, 238), (246, 244, 238), 0.03),
}


def _with(pattern: Pattern) -> dict[str, Material]:
    """Returns walls of every kind with this pattern, a window or a door, in them."""
    suffix = pattern.name.lower()
    return {f"{name}_{suffix}": Material(wall.top, wall.side, 0.03, pattern) for name, wall in _WALLS.items()}


def _single(colour: Colour, grain: float = 0.08, pattern: Pattern = Pattern.PLAIN) -> Material:
    return Material(colour, colour, grain, pattern)


MATERIALS: Final[Mapping[str, Material]] = MappingProxyType(
    {
        **{f"water_{depth}": _single(colour, 0.04, Pattern.WATER) for depth, colour in enumerate(_WATER)},
        **{f"turf_{lush}": Material(colour, _EARTH, 0.1, Pattern.TURF) for lush, colour in enumerate(_TURF)},
        **_WALLS,
        **_with(Pattern.WINDOW),
        **_with(Pattern.DOOR),
        "earth": _single(_EARTH, 0.14),
        "sand": _single((233, 219, 168), 0.05),
        "stone": _single((142, 142, 142), 0.12),
        "scree": _single((160, 156, 150), 0.16),
        "snow": Material((247, 250, 253), (226, 234, 242), 0.03),
        "road": Material((198, 172, 124), _EARTH, 0.12),
        "paving": Material((178, 174, 166), (150, 148, 144), 0.1, Pattern.BRICKS),
        "deck": _single((158, 120, 76), 0.06, Pattern.PLANKS),
        "beam": Material((112, 82, 52), (98, 72, 46), 0.1, Pattern.LOG),
        "pole": _single((116, 84, 54), 0.0, Pattern.POLE),
        "trunk": Material((150, 118, 76), (104, 80, 52), 0.14, Pattern.LOG),
        "birch": Material((222, 214, 190), (224, 222, 212), 0.12, Pattern.LOG),
        "leaves_oak": _single((84, 142, 58), 0.34, Pattern.LEAVES),
        "leaves_elm": _single((104, 158, 62), 0.32, Pattern.LEAVES),
        "leaves_birch": _single((140, 180, 84), 0.3, Pattern.LEAVES),
        "leaves_fir": _single((58, 106, 76), 0.32, Pattern.LEAVES),
        "leaves_blossom": _single((238, 170, 190), 0.2, Pattern.LEAVES),
        "roof_red": _single((190, 82, 62), 0.1, Pattern.SHINGLES),
        "roof_slate": _single((92, 112, 142), 0.1, Pattern.SHINGLES),
        "roof_brown": _single((146, 96, 62), 0.1, Pattern.SHINGLES),
        "roof_teal": _single((74, 140, 132), 0.1, Pattern.SHINGLES),
        "roof_straw": _single((206, 172, 96), 0.14, Pattern.SHINGLES),
        "cloth_white": _single((250, 247, 238), 0.03),
        "cloth_red": _single((206, 62, 58), 0.04),
        "cloth_blue": _single((70, 104, 178), 0.04),
        "cloth_yellow": _single((240, 200, 84), 0.04),
        "lamp": _single((255, 230, 140), 0.05),
        "wheat": Material((224, 192, 88), (196, 162, 70), 0.2, Pattern.FURROWS),
        "greens": Material((128, 176, 72), (96, 140, 58), 0.2, Pattern.FURROWS),
        "soil": Material((122, 84, 54), (112, 78, 52), 0.12, Pattern.FURROWS),
        "flower_red": Material((222, 74, 68), (86, 142, 58), 0.0, Pattern.PLANT),
        "flower_yellow": Material((250, 214, 84), (86, 142, 58), 0.0, Pattern.PLANT),
        "flower_white": Material((248, 246, 244), (86, 142, 58), 0.0, Pattern.PLANT),
        "tall_grass": Material((118, 172, 72), (98, 152, 62), 0.0, Pattern.PLANT),
    }
)
"""All materials by name. Names that end in `_0`, `_1`, ... are a scale: water by depth, turf by lushness."""


def below(surface: str, depth: int) -> str:
    """Returns the material `depth` blocks under a column's surface, for the sides of cliffs.

    The depth is at least 1.
    """
    kind, _, scale = surface.rpartition("_")
    if kind == "water":
        if depth <= 1 + int(scale) // 3:
            return surface
        return "sand" if depth <= 2 + int(scale) // 3 else "stone"
    if surface in ("sand", "stone", "scree", "snow"):
        return "sand" if surface == "sand" and depth <= 2 else "stone"
    return "earth" if depth <= 2 else "stone"
