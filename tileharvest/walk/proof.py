"""The proof of a layer: whether its tiles' times show that what lies below an unchanged tile is unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from tileharvest.tiles.grid import parent_cell

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from tileharvest.tiles.grid import Cell

DatedCell: TypeAlias = tuple[int, int, int, str | None]
"""Zoom, x and y of a tile, and its Last-Modified as the server wrote it."""

ONE_UPLOAD: Final = 600.0
"""Seconds. An upload that gives every file the present time spreads them over its own duration, minutes for
maps of some thousand tiles. Renders that are kept apart are hours apart, in the nearest case known one hour.
A longer upload in another order than children first shows as broken pairs anyway."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What the times of a layer's tiles say about the law."""

    pairs: int
    """Tiles that are known together with the tile above them."""
    broken: int
    """Those of the pairs in which the tile is newer than the one above."""
    undated: int
    """Tiles without a time that can be read."""
    span: float
    """Seconds between the oldest and the newest tile."""

    @property
    def holds(self) -> bool:
        return self.pairs > 0 and not self.broken and not self.undated and self.span >= ONE_UPLOAD

    @property
    def in_words(self) -> str:
        """Says in one line why it holds or does not."""
        if self.undated:
            return f"the site does not say when {tiles_in_words(self.undated)} changed"
        if self.broken:
            return f"of {tiles_in_words(self.pairs)} below another one {self.broken} changed after that one"
        if not self.pairs:
            return "no tile is known together with the one above it"
        if self.span < ONE_UPLOAD:
            return f"all tiles changed within {_duration(self.span)}, as in one upload"
        return (
            f"none of {tiles_in_words(self.pairs)} changed after the one above it, in {_duration(self.span)}"
        )


@dataclass(frozen=True, slots=True)
class StoredProof:
    """The last proof of a layer, which may not hold, or may have been withdrawn."""

    proof: Proof
    """Without pairs where a layer was walked without a proof, and only the withdrawal is known."""
    day: date
    """The day of the harvest that gave it."""
    withdrawn: str | None = None
    """Why it is not valid any more."""
    withdrawn_day: date | None = None


def prove(times: Iterable[DatedCell], factor: int = 2) -> Proof:
    """Returns the proof from the tiles that are there, with their Last-Modified; coarse zooms come first.

    `factor` is that of the layer's pyramid.

    Ask for it after a complete full walk. It keeps the times of two zooms at once, and never those of the
    deepest, which has three quarters of the tiles.
    """
    pairs = broken = undated = 0
    oldest, newest = float("inf"), float("-inf")
    known: dict[Cell, float] = {}
    coarser: dict[Cell, float] = {}
    at = None
    for zoom, x, y, text in times:
        if zoom != at:
            at, coarser, known = zoom, known, {}
        time = seconds_of(text)
        if time is None:
            undated += 1
            continue
        above = coarser.get(parent_cell(zoom, x, y, factor))
        if above is not None:
            pairs += 1
            broken += above < time
        if zoom < 0:
            known[zoom, x, y] = time
        oldest, newest = min(oldest, time), max(newest, time)
    return Proof(pairs, broken, undated, max(0.0, newest - oldest))


@lru_cache(maxsize=4096)
def seconds_of(http_date: str | None) -> float | None:
    """Returns seconds since 1970, or None for what is no date.

    Dates are kept, as the tiles of a layer share few of them, and reading one takes 10 us.
    """
    try:
        return None if http_date is None else parsedate_to_datetime(http_date).replace(tzinfo=UTC).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def tiles_in_words(count: int) -> str:
    return f"{count:,} tile{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
