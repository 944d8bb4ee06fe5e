"""How far apart requests began: as the program decided, and as nginx saw it on a machine that may be busy."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.servers.nginx import LogLine

SLACK: Final = 0.02
"""Seconds by which two requests may come closer than they were sent: another thread had the processor."""
EARLY: Final = 0.05
"""Seconds: what nginx and another clock take for the same moment."""
_STARTS: Final = re.compile(r"requests of map '(.*)' start at \[(.*)\]")
"""What is logged for debugging."""


def given_starts(log: str, name: str) -> list[float]:
    """The moments at which requests of that map were told to start, by the log of a process."""
    found = [starts for map_name, starts in _STARTS.findall(log) if map_name == name]
    return [float(start) for starts in found for start in starts.split(", ") if start]


def gaps_between(moments: Iterable[float]) -> list[float]:
    return [after - before for before, after in pairwise(sorted(moments))]


def begun(lines: Iterable[LogLine]) -> list[float]:
    """When the requests for tiles began, in order."""
    return sorted(line.time - line.duration for line in lines if line.path.endswith(".png"))


def assert_none_too_early(lines: Iterable[LogLine], starts: Iterable[float]) -> None:
    """On a busy machine some requests come late, and then several at once; none comes before its time."""
    moments = begun(lines)
    assert len(moments) > 1
    # What a budget has ended is not used up.
    assert all(moment > start - EARLY for moment, start in zip(moments, sorted(starts), strict=False))


def assert_apart(gaps: Sequence[float], least: float, slack: float = SLACK) -> None:
    """None was sent before its time.

    On a busy machine one comes late, and the next in time and so the closer to it: then it is as far as it
    must be from an earlier one. The first ones have few before them, and are often late: connections are
    opened.
    """
    for place, gap in enumerate(gaps):
        if gap < least - slack and place > len(gaps) // 4:
            since = [(sum(gaps[first : place + 1]), place + 1 - first) for first in range(place)]
            assert any(seconds >= least * count - slack for seconds, count in since), gaps
