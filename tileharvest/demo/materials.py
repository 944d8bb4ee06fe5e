"""The materials of the demo's blocks: colours and patterns. Pure values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Colour: TypeAlias = tuple[int, int, int]


class Material(NamedTuple):
    """The look of one kind of block."""

    top: Colour
    side: Colour
    grain: float = 0.08
    """The share by which the brightness differs from spot to spot."""
    pattern: str = ""
    """How its faces are painted: `turf`, `rows`, `window`, `door`, `water`, or plain."""


_EARTH: Final = (136, 98, 68)
_WATER: Final = (
    (121, 205, 214), (95, 187, 210), (74, 167, 203), (60, 148, 194),
    (50, 131, 184), (43, 117, 173), (38, 105, 163),
)  # fmt: skip
_TURF: Final = ((150, 191, 96), (137, 182, 88), (124, 173, 81), (111, 162, 75), (100, 151, 70))
_WALLS: Final = {
    "plaster": Material((236, 228, 210), (236, 228, 210), 0.04),
    "planks": Material((190, 152, 98), (190, 152, 98), 0.06, "rows"),
    "brick": Material((172, 98, 78), (172, 98, 78), 0.08, "rows"),
    "masonry": Material((158, 158, 156), (158, 158, 156), 0.08, "rows"),
    "whitewash": Material((246, 244, 238), (246, 244, 238), 0.03),
}
_SINGLE: Final[Mapping[str, tuple[Colour, float, str]]] = {
    "earth": (_EARTH, 0.14, ""),
    "sand": ((233, 219, 168), 0.05, ""),
    "stone": ((142, 142, 142), 0.12, ""),
    "deck": ((158, 120, 76), 0.06, "rows"),
    "beam": ((104, 78, 50), 0.1, ""),
    "leaves_oak": ((84, 142, 58), 0.34, ""),
    "leaves_elm": ((104, 158, 62), 0.32, ""),
    "leaves_fir": ((58, 106, 76), 0.32, ""),
    "leaves_blossom": ((238, 170, 190), 0.2, ""),
    "roof_red": ((190, 82, 62), 0.1, "rows"),
    "roof_slate": ((92, 112, 142), 0.1, "rows"),
    "roof_brown": ((146, 96, 62), 0.1, "rows"),
    "roof_teal": ((74, 140, 132), 0.1, "rows"),
    "cloth_white": ((250, 247, 238), 0.03, ""),
    "cloth_red": ((206, 62, 58), 0.04, ""),
    "lamp": ((255, 230, 140), 0.05, ""),
    "wheat": ((224, 192, 88), 0.2, "rows"),
}
MATERIALS: Final[Mapping[str, Material]] = {
    **{f"water_{depth}": Material(colour, colour, 0.04, "water") for depth, colour in enumerate(_WATER)},
    **{f"turf_{lush}": Material(colour, _EARTH, 0.1, "turf") for lush, colour in enumerate(_TURF)},
    **_WALLS,
    **{
        f"{name}_{hole}": wall._replace(pattern=hole)
        for name, wall in _WALLS.items()
        for hole in ("window", "door")
    },
    **{name: Material(colour, colour, grain, pattern) for name, (colour, grain, pattern) in _SINGLE.items()},
    "snow": Material((247, 250, 253), (226, 234, 242), 0.03),
    "road": Material((198, 172, 124), _EARTH, 0.12),
    "paving": Material((178, 174, 166), (150, 148, 144), 0.1, "rows"),
}
"""All materials by name. Names that end in `_0`, `_1`, ... are a scale: water by depth, turf by lushness."""


def below(surface: str, depth: int) -> str:
    """Returns the material `depth` blocks under a column's surface, for the sides of cliffs. The depth is at
    least 1."""
    if surface.startswith("water"):
        bed = 1 + int(surface[-1]) // 3
        return surface if depth <= bed else "sand" if depth == bed + 1 else "stone"
    if surface in ("stone", "snow") or depth > 2:
        return "stone"
    return "sand" if surface == "sand" else "earth"
