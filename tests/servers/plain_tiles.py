"""A shared map of Overviewer as plain tiles: the same images at the same times, by zoom, column and row."""

import json
import shutil
from pathlib import Path
from typing import Final

from tests.servers.published import published

NAME: Final = "antworld"
"""The shared map that is laid out anew."""
DEEPEST: Final = 7
_LAYER: Final = "world-lighting/"

WORLD: Final = (-180, -85.05112877980659, 180, 85.0511287798066)
"""The bounds of all plain tiles, in degrees, as the specification of TileJSON has them."""


def plain_path(path: str) -> str | None:
    """Where a published file of Overviewer lies as a plain tile, such as `2/1/2.png`; None for what is no
    tile. The whole map in one image, which has no path there, is zoom 0."""
    name, dot, ending = path.removeprefix(_LAYER).partition(".")
    is_tile = name == "base" or set(name) <= set("/0123")
    if not path.startswith(_LAYER) or ending != "png" or not is_tile:
        return None
    digits = [] if name == "base" else [int(digit) for digit in name.split("/")]
    # The first digit decides most: right or left half, lower or upper half.
    column = sum((digit % 2) << place for place, digit in enumerate(reversed(digits)))
    row = sum((digit // 2) << place for place, digit in enumerate(reversed(digits)))
    return f"{len(digits)}/{column}/{row}{dot}{ending}"


def plain_tiles(shared_maps: Path, version: int, folder: Path) -> Path:
    """Makes `folder` hold exactly the plain tiles of a version, and returns it."""
    source = published(shared_maps, NAME, version, folder.with_name(f"{folder.name}-of-overviewer"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in source.rglob("*.png"):
        path = plain_path(file.relative_to(source).as_posix())
        if path is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, folder / path)
    return folder


def tile_json(template: str) -> str:
    """What describes the map's tiles, which lie at this template."""
    said = {"tilejson": "3.0.0", "tiles": [template], "minzoom": 0, "maxzoom": DEEPEST, "bounds": WORLD}
    return json.dumps({**said, "name": "ants"})
