"""The gate of a crawl: whether further requests may start, and why not."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Reason(StrEnum):
    """Why requests are held back."""

    PAUSED = "paused"
    """A person has paused the map."""
    QUIET = "quiet"
    """These are the map's quiet hours."""
    DOWN = "down"
    """The host does not answer."""
    SPENT = "spent"
    """A budget is spent; the crawl is about to end."""


class HeldBackError(Exception):
    """A request that was offered must not start any more. It was not sent, and goes back to the queue."""


class Gate:
    """It is open while there is no reason to hold requests back. What is on the way is not touched by it."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called whenever it has opened or shut."""
        self._changed = changed
        self.reasons: set[Reason] = set()

    @property
    def is_open(self) -> bool:
        return not self.reasons

    def holds(self, reason: Reason) -> bool:
        """Whether it is shut for this reason. There may be others."""
        return reason in self.reasons

    def hold(self, reason: Reason) -> None:
        """Shut it for this reason too."""
        self._with(self.reasons | {reason})

    def let_go(self, reason: Reason) -> None:
        """Drop this reason. The gate stays shut while there are others."""
        self._with(self.reasons - {reason})

    def _with(self, reasons: set[Reason]) -> None:
        was_open, self.reasons = self.is_open, reasons
        if self.is_open is not was_open:
            self._changed()
