"""Failures of the history that a program can answer with more than a message."""

from __future__ import annotations

from typing import Self

from tileharvest.errors import HistoryError


class NoHistoryError(HistoryError):
    """There is no history at the place yet: the first harvest begins it."""

    @classmethod
    def at(cls, place: str) -> Self:
        return cls(f"there is no history at {place} yet: the first harvest begins it")


class SegmentFinishedError(HistoryError):
    """A harvest of the map and segment is finished, perhaps since a moment ago; nothing was changed."""


class HarvestEndedError(HistoryError):
    """The harvest has ended, by this process or another one; what was to be written was not."""

    reason: str | None = None
    """With which it ended, such as `finished`."""


class PassingError(HistoryError):
    """What may be over soon, such as a server that is restarted: the same may be tried again.

    Nothing was changed, unless it was the answer to a commit that got lost: this cannot be told.
    """
