"""Missing tiles: whether a map has moved, was begun anew, or was never at its address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tileharvest.errors import counted
from tileharvest.tiles.outcomes import THERE, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

SAMPLE: Final = 100
"""The tiles that are asked before a map counts as moved, if most of its known tiles were not reached by the
walk. Most of a map that was redrawn with fewer zooms is still there, although no walk leads to it."""


class Missing(NamedTuple):
    """How many of the tiles that a map had before a harvest are missing so far."""

    known: int
    """The tiles that existed before the harvest."""
    gone: int
    """The known tiles that were asked and are no longer there."""
    unasked: int = 0
    """The known tiles that were neither asked nor skipped. Tiles below a missing one are not asked."""

    @property
    def is_suspect(self) -> bool:
        """Whether more than half of the known tiles are missing or were not reached."""
        return self.gone + self.unasked > self.known / 2

    @property
    def has_moved(self) -> bool:
        """Whether the map has moved rather than lost tiles. It rests only on tiles that were asked: on more
        than half of all, or on a sample of them if the walk did not reach most."""
        asked = self.known - self.unasked
        is_sampled = self.is_suspect and self.gone >= SAMPLE and self.gone > asked / 2
        return is_sampled or self.gone > self.known / 2

    def in_words(self, map_name: str, found: int) -> str:
        """Returns what has happened and what to do. `found` is the number of tiles that are there."""
        missing = f"more than half of the {self.known:,} tiles known of map '{map_name}' are missing"
        if not found:
            return (
                f"{missing}: the map has moved rather than vanished. None was recorded as gone;"
                " put the new url into maps.toml and run again"
            )
        return (
            f"{missing}, and {counted(found, 'tile')} are there: the map was begun anew at its address, or"
            " most of it was removed. None was recorded as gone; harvest it under another name, with scrapy"
            " add, and the history of this one stays as it is"
        )


def is_empty(counts: Mapping[Outcome, int], known: int) -> bool:
    """Returns whether a harvest has found no tile at all of a map of which no tile was known.

    If tiles failed, nobody knows."""
    return not known and not any(counts.get(outcome) for outcome in (*THERE, Outcome.FAILED))
