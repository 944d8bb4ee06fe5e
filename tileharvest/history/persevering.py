"""Trying again what a database on a server could not do just now."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, TypeVar

from tileharvest.history.errors import PassingError

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE: Final = 60.0
"""Seconds from the first failure on: a server is restarted, or a standby takes its place, in less."""

_SHORTEST, _LONGEST = 0.05, 2.0
"""Seconds between two attempts; each time twice as many."""

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def persevere(attempt: Callable[[], _Result], patience: float) -> _Result:
    """What `attempt` gives, called again while it raises PassingError. Sleeps between: not for an event loop.

    Raises PassingError when that lasts for longer than `patience` seconds, and at once whatever else it
    raises. An attempt that failed may have taken effect all the same: it must be one that can be repeated.
    """
    begun: float | None = None
    pause = _SHORTEST
    while True:
        try:
            return attempt()
        except PassingError as error:
            now = time.monotonic()
            if begun is None:
                begun = now
                _log.warning("trying again for %.0f s: %s", patience, error)
            if now + pause - begun > patience:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)
