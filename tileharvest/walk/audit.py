"""The audit: which of the skipped tiles are asked all the same, and which answers show that skipping was
wrong."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from heapq import nsmallest
from math import ceil
from typing import TYPE_CHECKING, Final

from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tileharvest.tiles.grid import Tile

LEAST_AUDITED: Final = 20
"""The least number of tiles that an audit asks in each layer. If 20 tiles are all unchanged, it is 95 % sure
that fewer than 14 % of the skipped tiles have changed (1 - 0.05^(1/20))."""

LEAST_KNOWN: Final = 3
"""The least number of known tiles that an audit asks in each layer, also that of a change index. If an index
misses a whole render, the share of audited tiles that show it is the share of tiles that the render has
changed. An index that forgets a single tile now and then is found late."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The tiles of a layer that are asked to see whether skipping was right."""

    tiles: Sequence[Tile] = ()
    known: frozenset[Tile] = frozenset()
    """The tiles among them that the history knows. The others are expected not to exist."""
    is_of_index: bool = False
    """Whether the tiles were skipped because a change index did not name them."""

    def broken(self, found: Mapping[Tile, Outcome]) -> list[Tile]:
        """Returns the audited tiles whose outcome shows that it was wrong to skip them.

        A change index tells of changed images. So a file that was written again with the same bytes (`nMod`)
        does not make the index wrong.
        """
        told = {Outcome.NOT_MODIFIED} if self.is_of_index else set()
        return [
            tile
            for tile, outcome in found.items()
            if outcome not in told and breaks_law(outcome, is_known=tile in self.known)
        ]


def audited(skipped: Callable[[], Iterable[Tile]], share: float, least: int, seed: str) -> list[Tile]:
    """Returns the skipped tiles that are asked all the same, in order.

    `skipped` yields each skipped tile once, every time it is called. There may be as many as a map has tiles,
    so they are not held in memory. Among them are the tiles that are known, and the empty places that a full
    walk would ask: a tile may have been added without a change above it, and no known tile would show that.

    The number of tiles is the share of them, rounded up, but at least `least`, and all if there are fewer.
    Each tile is as likely as any other. The same seed draws the same tiles, whoever draws and in whatever
    order they come. So a harvest that another worker continues audits the same tiles.
    """
    wanted = max(least, ceil(share * sum(1 for _ in skipped())))

    def lot(tile: Tile) -> bytes:
        return blake2b(f"{seed} {tile}".encode(), digest_size=16).digest()

    return sorted(nsmallest(wanted, skipped(), key=lot))


def breaks_law(outcome: Outcome, *, is_known: bool = True) -> bool:
    """Returns whether the outcome of an audited tile shows that the law does not hold.

    A known tile must be unchanged. At a place where no tile was known (`is_known`) there must still be none,
    also at a zoom that is not kept. A failed request shows nothing.
    """
    expected = Outcome.IGNORED if is_known else Outcome.NOTHING
    return outcome not in {expected, Outcome.FAILED}
