"""Why nothing may start, and until when. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

FORBIDDEN: Final = "robots.txt forbids it"
"""The reason of the failure of a tile that was not asked for."""


class HeldError(Exception):
    """Nothing may start now."""


class HoldReason(StrEnum):
    """Why requests are held back."""

    PAUSED = "paused"
    """A person has paused the map."""
    QUIET = "quiet"
    """These are the map's quiet hours."""
    DOWN = "down"
    """The host does not answer."""
    RESTING = "resting"
    """The host has asked to be left alone for a while."""
    SPENT = "spent"
    """A budget is spent; the crawl is about to end."""


class Hold(NamedTuple):
    """The reason for which nothing may start."""

    reason: HoldReason
    until: float | None = None
    """When it ends, in seconds since 1970. None if nobody knows."""
