"""Which zoom an answer is taken from, and the same ground at another zoom. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.history.schema import BLOCK_LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from tileharvest.history.viewing import LayerOutline


def kept_zooms(layer: LayerOutline, until: date | None = None) -> list[int]:
    """The zooms of which the layer has versions, or had by the end of that day; coarsest first."""
    return sorted(zoom for zoom, first in layer.zooms.items() if until is None or first <= until)


def next_deeper(kept: Iterable[int], zoom: int) -> int | None:
    """The coarsest of these zooms that is not coarser than `zoom`; None if all are."""
    return min((each for each in kept if each >= zoom), default=None)


def counted_in(kept: list[int], zoom: int) -> tuple[int, bool]:
    """The zoom whose changes are counted for someone who looks at this one, and whether in blocks.

    A block covers as much as one tile three levels coarser, so the blocks of a zoom three levels deeper
    are the tiles on the screen. Near the deepest zoom there are none, and tiles are counted one by one.
    `kept` must not be empty.
    """
    deeper = next_deeper(kept, zoom + BLOCK_LEVELS)
    if deeper is not None:
        return deeper, True
    # Deeper than the deepest: whoever looks at it sees the deepest enlarged.
    return next_deeper(kept, zoom) or max(kept), False


def heated_in(kept: list[int], zoom: int) -> int:
    """The zoom of the cells of a heat map for someone who looks at this one. `kept` must not be empty."""
    deeper = next_deeper(kept, zoom + BLOCK_LEVELS)
    return max(kept) if deeper is None else deeper
