"""Budgets of harvests, and sizes in bytes as people write them. Pure."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tileharvest.errors import counted

_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|TB)?\s*", re.ASCII)
_UNITS: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_TOO_MUCH: Final = 10**18
"""The bytes from which on a size is a typing mistake: a million TB. Databases take no more than 64 bits."""

PARTS: Final = ("requests", "bytes", "seconds")
"""The parts of a budget, as people write them."""
OF_DAY: Final = "daily budget"
"""The name of the budget that ends a run when the rest of the day's budget is spent."""


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most that may be spent, in the form of `maps.toml`. None means no limit. Raises ValueError for a
    budget that allows nothing."""

    requests: int | None = None
    bytes: str | int | None = None
    """Bytes of the bodies of answers, or a size such as `500 MB`. The answer to a HEAD has no body."""
    seconds: float | None = None
    """Seconds of work. Pauses are not counted."""

    def __post_init__(self) -> None:
        if isinstance(self.bytes, str):
            msgspec.structs.force_setattr(self, "bytes", parse_size(self.bytes))
        for name, value in zip(PARTS, self.limits, strict=True):
            if value is not None and not value > 0:
                raise ValueError(f"a budget of {value} {name} allows nothing")

    @property
    def received_bytes(self) -> int | None:
        return None if self.bytes is None else int(self.bytes)

    def __bool__(self) -> bool:
        """Returns whether the budget limits anything."""
        return any(limit is not None for limit in self.limits)

    @property
    def limits(self) -> tuple[int | None, int | None, float | None]:
        """The limits in the order of PARTS."""
        return self.requests, self.received_bytes, self.seconds

    def in_words(self, part: str) -> str:
        """Returns the limit of one of PARTS in words, or the part's name if it has no limit."""
        limit = self.limits[PARTS.index(part)]
        return part if limit is None else amount_in_words(limit, part)


def amount_in_words(number: float, part: str) -> str:
    """Returns an amount of one of PARTS for a person."""
    if part == "requests":
        return counted(int(number), "request")
    return bytes_in_words(int(number)) if part == "bytes" else f"{number:.10g} s"


def parse_size(text: str | int) -> int:
    """Returns the bytes of `2 GB`, `500 MB` or a plain number. Units are powers of 1000. Raises ValueError
    for a text that is not a size, and for 10**18 bytes or more."""
    found = _SIZE.fullmatch(str(text))
    if found is None or float(found[1]) * _UNITS[found[2] or "B"] >= _TOO_MUCH:
        raise ValueError(f"'{text}' is not a size: write for example \"500 MB\"")
    return int(float(found[1]) * _UNITS[found[2] or "B"])


def bytes_in_words(count: int) -> str:
    """Returns a number of bytes for a person, in powers of 1000: `1.2 MB`."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        # A size that would be rounded to 1000.0 is written in the next unit.
        if size < (1000 if unit == "B" else 999.95):
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
