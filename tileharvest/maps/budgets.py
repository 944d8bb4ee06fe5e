"""How much a harvest may ask for, and how people write sizes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|TB)?\s*", re.ASCII)
_UNITS: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_TOO_MUCH: Final = 10**18
"""Bytes: a million TB are a slip of the pen, and more than 64 bits no database takes."""


PARTS: Final = ("requests", "bytes", "seconds")
"""What may be limited, as people write it."""
OF_DAY: Final = "daily budget"
"""What ended a run that had spent what was left of the day's."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that may be spent; None: without limit. Raises ValueError for a budget that allows nothing."""

    requests: int | None = None
    received_bytes: int | None = None
    """Of bodies; the answer to a HEAD has none."""
    seconds: float | None = None
    """Of work: pauses are not counted."""

    def __post_init__(self) -> None:
        for name, value in zip(PARTS, (self.requests, self.received_bytes, self.seconds), strict=True):
            if value is not None and not value > 0:
                raise ValueError(f"a budget of {value} {name} allows nothing")

    def __bool__(self) -> bool:
        """Whether anything is limited."""
        return not (self.requests is None and self.received_bytes is None and self.seconds is None)

    def in_words(self, part: str) -> str:
        """One of PARTS for a person; its name alone where it has no limit."""
        limits = {
            "requests": self.requests and f"{self.requests:,} request{'s' * (self.requests > 1)}",
            "bytes": self.received_bytes and bytes_in_words(self.received_bytes),
            "seconds": self.seconds and f"{self.seconds:g} s",
        }
        return limits.get(part) or part


def parse_size(text: str | int) -> int:
    """Bytes of `2 GB`, `500 MB` or a plain number, in powers of 1000, less than 10**18. Raises ValueError."""
    found = _SIZE.fullmatch(str(text))
    if found is None or float(found[1]) * _UNITS[found[2] or "B"] >= _TOO_MUCH:
        raise ValueError(f"'{text}' is no size: write for example \"500 MB\"")
    return int(float(found[1]) * _UNITS[found[2] or "B"])


def bytes_in_words(count: int) -> str:
    """A number of bytes for a person, in powers of 1000: `1.2 MB`."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        # What would be rounded to 1000.0 is told in the next unit.
        if size < (1000 if unit == "B" else 999.95):
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
