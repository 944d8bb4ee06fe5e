"""The proof of a layer: whether the times of its tiles show that nothing below an unchanged tile has
changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from tileharvest.errors import counted
from tileharvest.tiles.block import SIDE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

DatedBlock: TypeAlias = tuple[int, int, int, Mapping[int, str | None]]
"""The zoom of a block, column and row of its first tile, and by bit the Last-Modified of its tiles as the
server wrote them."""

ONE_UPLOAD: Final = 600.0
"""Seconds between the oldest and the newest tile up to which all may come from one upload. An upload that
gives every file the present time spreads the times over its own duration: minutes for maps of some thousand
tiles. Renders are hours apart; the least that is known is one hour. A longer upload shows as broken pairs,
unless it sends children first."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The evidence that the times of a layer's tiles give for the law of the pruned walk.

    It may not hold, and what a later harvest finds may withdraw it. A layer that was walked without a proof
    may have a withdrawn one without pairs.
    """

    day: date
    """The day of the harvest that gave the proof."""
    pairs: int
    """The number of tiles whose own time and whose parent's time are known."""
    broken: int
    """The number of these tiles that are newer than their parent."""
    undated: int
    """The number of tiles without a time that can be read."""
    span: float
    """Seconds between the oldest and the newest tile."""
    withdrawn: str | None = None
    """Why the proof is not valid any more; None if it is."""
    withdrawn_day: date | None = None

    @property
    def holds(self) -> bool:
        """Whether the times agree with the law, whether or not the proof was withdrawn."""
        return self.pairs > 0 and not self.broken and not self.undated and self.span >= ONE_UPLOAD

    @property
    def in_words(self) -> str:
        """One line that says why the proof holds or does not hold."""
        if self.undated:
            return f"the site does not say when {counted(self.undated, 'tile')} changed"
        if self.broken:
            return f"of {counted(self.pairs, 'tile')} below another one {self.broken} changed after that one"
        if not self.pairs:
            return "no tile is known together with the one above it"
        if self.span < ONE_UPLOAD:
            return f"all tiles changed within {_duration(self.span)}, as in one upload"
        return (
            f"none of {counted(self.pairs, 'tile')} changed after the one above it, in {_duration(self.span)}"
        )


def prove(blocks: Iterable[DatedBlock], day: date, factor: int = 2) -> Proof:
    """Returns the proof of a layer from the blocks of its existing tiles, coarse zooms first.

    `day` is that of the harvest, which should be a complete full walk. `factor` is that of the layer's
    pyramid. Memory holds the times of two zooms at once, and never those of the deepest zoom, which has three
    quarters of the tiles.
    """
    pairs = broken = undated = 0
    oldest, newest = float("inf"), float("-inf")
    known: dict[tuple[int, int], float] = {}
    coarser: dict[tuple[int, int], float] = {}
    at = None
    for zoom, left, top, texts in blocks:
        if zoom != at:
            at, coarser, known = zoom, known if at == zoom - 1 else {}, {}
        times = {bit: when for bit, text in texts.items() if (when := seconds_of(text)) is not None}
        undated += len(texts) - len(times)
        oldest, newest = min([oldest, *times.values()]), max([newest, *times.values()])
        if zoom < 0:
            for bit, when in times.items():
                known[left + bit % SIDE, top + bit // SIDE] = when
        for bit, when in times.items() if coarser else ():
            above = coarser.get(((left + bit % SIDE) // factor, (top + bit // SIDE) // factor))
            if above is not None:
                pairs += 1
                broken += above < when
    return Proof(day, pairs, broken, undated, max(0.0, newest - oldest))


def seconds_of(http_date: str | None) -> float | None:
    """Returns an HTTP date in seconds since 1970, or None for a text that is not a date.

    Many tiles are rendered in the same minute. To it the seconds of the usual form are added, which takes a
    tenth of the time: `Mon, 01 Jan 2024 00:00:05 GMT` (RFC 9110, section 5.6.7).
    """
    if http_date is None:
        return None
    try:
        if http_date[22:23] == ":" and http_date[25:] == " GMT" and "00" <= http_date[23:25] < "60":
            return _seconds(f"{http_date[:22]} GMT") + int(http_date[23:25])
        return _seconds(http_date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


@lru_cache(maxsize=1024)
def _seconds(text: str) -> float:
    return parsedate_to_datetime(text).replace(tzinfo=UTC).timestamp()


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
