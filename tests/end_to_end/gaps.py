"""How far apart requests began, as nginx has it, on a machine that may be busy."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.servers.nginx import LogLine

SLACK: Final = 0.02
"""Seconds by which two requests may come closer than they were sent: another thread had the processor."""
MOST_LATE: Final = 1 / 8
"""Of all requests, or one of a few: so many may come later than that."""


def gaps_of(lines: Iterable[LogLine]) -> list[float]:
    """Seconds from the beginning of each request to that of the next."""
    begun = sorted(line.time - line.duration for line in lines)
    return [after - before for before, after in pairwise(begun)]


def assert_apart(gaps: Sequence[float], least: float, slack: float = SLACK) -> None:
    """None was sent before its time.

    On a busy machine one comes late, and the next in time and so the closer to it: then it is as far as it
    must be from an earlier one. The very first has none before it, and is often late: connections are opened.
    """
    close = [place for place, gap in enumerate(gaps) if gap < least - slack]
    assert len(close) <= max(1, MOST_LATE * len(gaps)), gaps
    for place in close:
        since = [(sum(gaps[first : place + 1]), place + 1 - first) for first in range(place)]
        assert place <= 1 or any(seconds >= least * count - slack for seconds, count in since), gaps
