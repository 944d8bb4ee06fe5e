"""How far apart requests began: as the program decided, and as nginx saw it on a machine that may be busy."""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from tests.servers.nginx import LogLine

EARLY: Final = 0.05
"""Seconds: what nginx and another clock take for the same moment."""
_STARTS: Final = re.compile(r"a request of map '(.*)' starts at (.*)$", re.MULTILINE)
"""What is logged for debugging."""


def given_starts(log: str, name: str) -> list[float]:
    """The moments at which requests of that map were told to start, by the log of a process."""
    return [float(start) for map_name, start in _STARTS.findall(log) if map_name == name]


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
