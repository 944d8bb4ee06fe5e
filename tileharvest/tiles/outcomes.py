"""The outcomes: what a harvest can find for one tile. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Outcome(StrEnum):
    """The result of a harvest for one tile, as a word. History, commands and messages use the same words."""

    NOTHING = "404"
    """Nothing is here, and nothing was known."""
    IGNORED = "ign"
    """The server's validator is the stored one, so the tile was not fetched."""
    SKIPPED = "skip"
    """The tile was not asked, because a tile above it or a change index shows that it has not changed.
    Skipped tiles are counted at the end of a harvest; no single result has this outcome."""
    NOT_MODIFIED = "nMod"
    """The tile was fetched and has the bytes of the latest version."""
    UPDATED = "upd"
    """The bytes differ from the latest version, which is of an earlier day."""
    ADDED = "add"
    """This is the first version, or the first one since the tile was gone."""
    REPLACED = "rep"
    """The bytes differ from the latest version, which is of this day, and take its place."""
    GONE = "gone"
    """A version is known, and the server no longer has the tile."""
    FAILED = "fail"
    """No attempt brought a usable answer. The tile counts as unchanged."""

    @property
    def makes_version(self) -> bool:
        """Whether the history gets a new version of the tile, or one in place of today's."""
        return self in _MAKING_VERSIONS


CHANGED: Final = frozenset({Outcome.UPDATED, Outcome.ADDED, Outcome.REPLACED})
"""The outcomes of a tile with other bytes than before. Their results have an image."""
FETCHED: Final = CHANGED | {Outcome.NOT_MODIFIED}
"""The outcomes of a tile whose bytes were fetched."""
THERE: Final = FETCHED | {Outcome.IGNORED}
"""The outcomes of a tile that was asked and exists."""
MISSING: Final = frozenset({Outcome.NOTHING, Outcome.GONE})
"""The outcomes of a place that was asked and has no tile."""
_MAKING_VERSIONS: Final = CHANGED | {Outcome.GONE}


def tiles_with(outcomes: Collection[Outcome], masks: Mapping[Outcome, int]) -> int:
    """Returns the tiles of a block that have one of these outcomes. `masks` are its tiles by outcome."""
    joined = 0
    for outcome, mask in masks.items():
        if outcome in outcomes:
            joined |= mask
    return joined


def counts_as_plain(counts: Mapping[Outcome, int]) -> dict[str, int]:
    """Returns counts by the outcome's word, for output that programs read. Zeros are left out."""
    return {outcome.value: counts[outcome] for outcome in Outcome if counts.get(outcome)}
