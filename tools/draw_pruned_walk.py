#!/usr/bin/env python3
"""Draws how a pruned walk finds a changed tile: a picture for the documentation.

draw_pruned_walk.py [OUT.svg]        (docs/pictures/pruned-walk.svg)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tileharvest.tiles.grid import Tile, first_level

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPTH: Final = 3
CHANGED: Final = Tile(0, 3, 1)
"""The tile of the deepest level that was drawn anew."""
WIDTH, HEIGHT = 900, 560
MIDDLE: Final = 290
TOPS: Final = (30, 180, 330)
"""The upper edge of each level's plane in pixels, the first level first."""
HALF: Final = (250, 72)
"""Half of a plane's width and height, in pixels."""
PALE, GREY, BLUE, ORANGE = "#e7eae8", "#c3cbc6", "#2563a8", "#e8853a"
TEXT: Final = 'font-family="system-ui, sans-serif" font-size="17" fill="#26302b"'


class Look(NamedTuple):
    fill: str
    edge: str
    width: float
    meaning: str


ANEW = Look(ORANGE, BLUE, 3, "asked, and changed: its children are asked")
SAME = Look("#ffffff", BLUE, 3, "asked, and unchanged: nothing below it is asked")
SKIPPED = Look(PALE, GREY, 1, "skipped")


def asked(changed: frozenset[Tile]) -> Iterator[Tile]:
    """Yields the tiles that the walk asks for: the first level, and the children of every changed tile."""
    pending = list(first_level(DEPTH))
    while pending:
        tile = pending.pop()
        yield tile
        if tile in changed and tile.zoom < 0:
            pending += tile.children()


def with_those_above(tile: Tile) -> Iterator[Tile]:
    while tile.zoom > -DEPTH:
        yield tile
        tile = tile.parent()


def level(number: int) -> list[Tile]:
    """Returns the tiles of a level. The first level is number 0."""
    tiles = list(first_level(DEPTH))
    for _ in range(number):
        tiles = [child for tile in tiles for child in tile.children()]
    return tiles


def corner(x: int, y: int, top: int) -> str:
    """Returns the pixels of a place of the grid, seen from a side.

    The map's upper left corner lies at the back.
    """
    across, down = (x / 2**DEPTH), (-y / 2**DEPTH)
    return f"{MIDDLE + (across - down) * HALF[0] / 2:.1f},{top + HALF[1] + (across + down) * HALF[1] / 2:.1f}"


def drawn(tile: Tile, look: Look, top: int) -> str:
    reach = tile.reach
    corners = [(-reach, reach), (reach, reach), (reach, -reach), (-reach, -reach)]
    points = " ".join(corner(tile.x + x, tile.y + y, top) for x, y in corners)
    return (
        f'<polygon points="{points}" fill="{look.fill}" stroke="{look.edge}" stroke-width="{look.width}"'
        ' stroke-linejoin="round"/>'
    )


def picture() -> str:
    changed = frozenset(with_those_above(CHANGED))
    questions = frozenset(asked(changed))

    def look_of(tile: Tile) -> Look:
        return SKIPPED if tile not in questions else ANEW if tile in changed else SAME

    looks = {tile: look_of(tile) for number in range(DEPTH) for tile in level(number)}
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for number, top in enumerate(TOPS):
        tiles = level(number)
        # Outlined tiles come last, so that no neighbour covers their edges.
        ordered = sorted(tiles, key=lambda tile: (SKIPPED, SAME, ANEW).index(looks[tile]))
        parts += [drawn(tile, looks[tile], top) for tile in ordered]
        count = sum(tile in questions for tile in tiles)
        parts.append(
            f'<text x="590" y="{top + HALF[1]}" {TEXT} font-weight="600">zoom {tiles[0].zoom}</text>'
        )
        said = f"{count} of {len(tiles)} tiles asked"
        parts.append(f'<text x="590" y="{top + HALF[1] + 24}" {TEXT}>{said}</text>')
    for number, look in enumerate((ANEW, SAME, SKIPPED)):
        x, y = (40, 508 + 30 * number) if number < 2 else (590, 508)
        parts.append(
            f'<rect x="{x}" y="{y - 14}" width="20" height="16" fill="{look.fill}" stroke="{look.edge}"'
            f' stroke-width="{look.width}"/><text x="{x + 32}" y="{y}" {TEXT}>{look.meaning}</text>'
        )
    title = f"{len(questions)} of {len(looks)} tiles are asked to find one that has changed"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}" role="img"><title>{title}</title>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def main() -> int:
    out = sys.argv[1] if len(sys.argv) > 1 else "docs/pictures/pruned-walk.svg"
    Path(out).write_text(picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
