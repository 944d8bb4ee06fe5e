"""The audit: which of the skipped tiles are asked all the same, and what shows that skipping was wrong."""

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
"""Tiles that an audit asks at least, in each layer: where 20 are all right, it is 19 in 20 sure that fewer
than 14 % of those that were skipped are not (1 - 0.05^(1/20))."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What is asked of a layer to see whether skipping was right."""

    tiles: Sequence[Tile] = ()
    known: frozenset[Tile] = frozenset()
    """Those that are known. At the other places nothing is expected."""
    is_of_index: bool = False
    """Whether the tiles were skipped because a change index did not tell of them."""

    def broken(self, found: Mapping[Tile, Outcome]) -> list[Tile]:
        """Returns the audited tiles which show that it was wrong to skip them.

        An index tells of images. That one was written again with the same bytes does not make it wrong.
        """
        told = {Outcome.NOT_MODIFIED} if self.is_of_index else set()
        return [
            tile
            for tile, outcome in found.items()
            if outcome not in told and breaks_law(outcome, is_known=tile in self.known)
        ]


def audited(skipped: Callable[[], Iterable[Tile]], share: float, least: int, seed: str) -> list[Tile]:
    """Returns which of the skipped tiles are asked all the same, in order.

    `skipped` yields each of them once, whenever it is called: they may be as many as a map has tiles, and are
    not held. They are the tiles that are known, and the empty places that a full walk would ask: no known
    tile shows that one was added where nothing above it was touched.

    It is the share of them, rounded up, but at least `least`, and all where there are fewer. Each tile is as
    likely as any other. The same ones are drawn for the same seed, whoever asks and in whatever order they
    come: a harvest that is continued, perhaps by another worker, audits what it did before.
    """
    wanted = max(least, ceil(share * sum(1 for _ in skipped())))

    def lot(tile: Tile) -> bytes:
        return blake2b(f"{seed} {tile}".encode(), digest_size=16).digest()

    return sorted(nsmallest(wanted, skipped(), key=lot))


def breaks_law(outcome: Outcome, *, is_known: bool = True) -> bool:
    """Returns whether what was found for an audited tile shows that the law does not hold.

    Anything that is new shows it. Where no tile was known (`is_known`) it is news that one is there, also at
    a zoom that is not kept.
    """
    expected = Outcome.IGNORED if is_known else Outcome.NOTHING
    return outcome not in {expected, Outcome.FAILED}
