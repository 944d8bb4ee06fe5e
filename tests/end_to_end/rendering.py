"""What a published folder holds, tile by tile: the truth that harvests are compared with.

Names are computed here in another way than the program's: from column and row, not step by step.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.end_to_end.project import LayerTile

LAYER: Final = "world-lighting"
"""The only layer of the shared maps."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """A layer in a published folder, whatever is in there when it is asked."""

    folder: Path
    depth: int
    layer: str = LAYER

    def file(self, path: str) -> Path:
        """The file of a tile's path such as `/0/3`, or of its digits alone, such as `03`."""
        folders = "".join(f"/{digit}" for digit in path if digit != "/")
        return self.folder / f"{self.layer}{folders}.png"

    def paths(self) -> set[str]:
        """Of all tiles that are there."""
        top = self.folder / self.layer
        files = (file.relative_to(top).with_suffix("").as_posix() for file in top.rglob("*.png"))
        return {f"/{path}" for path in files if set(path) <= set("/0123")}

    def missing(self) -> set[str]:
        """What a walk downwards asks for in vain: children of tiles that are there, themselves not there."""
        there = self.paths()
        parents = [path for path in there | {""} if path.count("/") < self.depth]
        return {f"{path}/{digit}" for path in parents for digit in "0123"} - there

    def missing_tiles(self) -> set[LayerTile]:
        return self.tiles(self.missing())

    def tile(self, path: str) -> LayerTile:
        """The grid name of a path or its digits."""
        digits = [int(digit) for digit in path if digit != "/"]
        column = int("".join(str(digit % 2) for digit in digits), 2)
        row = int("".join(str(digit // 2) for digit in digits), 2)
        zoom, side = len(digits) - self.depth, 1 << self.depth
        width = 2 << -zoom
        return LayerTile(
            self.layer, zoom, column * width + width // 2 - side, side - row * width - width // 2
        )

    def tiles(self, paths: Iterable[str]) -> set[LayerTile]:
        return {self.tile(path) for path in paths}

    def images(self) -> dict[LayerTile, bytes]:
        """The bytes of all tiles that are there."""
        return {self.tile(path): self.file(path).read_bytes() for path in self.paths()}

    def tiles_of_files(self, names: Iterable[str]) -> set[LayerTile]:
        """The tiles among names of files below the folder, such as `world-lighting/0/3.png`."""
        found = {name.removeprefix(self.layer).removesuffix(".png") for name in names}
        return self.tiles(path for path in found if path and set(path) <= set("/0123"))
