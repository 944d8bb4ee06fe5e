"""Published folders, read by their files alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MOVED = {"0": "03", "1": "12", "2": "21", "3": "30"}
"""The places to which Overviewer's `tileset.py` moves the first level when a map grows."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of the published folder, as it was on one day."""

    content: bytes
    modified: int
    inode: int


Snapshot = dict[str, File]
"""The files of the layer by quadtree digits: `031` for `0/3/1.png`; `base` for the whole map."""


def snapshot(folder: Path) -> Snapshot:
    layer = folder / "world-day"
    return {
        "".join(path.relative_to(layer).with_suffix("").parts): File(
            path.read_bytes(), int(path.stat().st_mtime), path.stat().st_ino
        )
        for path in layer.rglob("*.png")
    }
