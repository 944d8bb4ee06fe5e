"""Gaps between two requests, and the rates in which people write them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_RATE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(s|min|h)\s*", re.ASCII)
_SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0}

LONGEST: Final = 24 * 3600.0
"""The longest gap in seconds: a day. A longer one is a typing mistake."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Seconds from the start of one request to the start of the next.

    Each gap is drawn at random, evenly between `least` and `most`. It is fixed if both are the same. Raises
    ValueError for a gap that is negative or too long.
    """

    least: float
    most: float

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most <= LONGEST:
            raise ValueError(
                f"{self} is not a time to wait: write seconds up to a day, the fewer ones first, such as 0.5"
                " or [0.2, 0.8]"
            )

    @classmethod
    def of(cls, value: float | Sequence[float]) -> Delay:
        """Returns the gap that a person writes as `0.5` or `[0.2, 0.8]`. Raises ValueError."""
        if isinstance(value, (int, float)):
            return cls(float(value), float(value))
        if len(value) != 2:
            raise ValueError(f"{list(value)} is not a time to wait: write seconds, such as 0.5 or [0.2, 0.8]")
        return cls(float(value[0]), float(value[1]))

    @classmethod
    def of_rate(cls, rate: float) -> Delay:
        """Returns the gap of a number of requests per second. Raises ValueError for a rate that is infinite,
        or less than one request a day."""
        if not 1 / LONGEST <= rate < inf:
            raise ValueError(f"{rate:g} requests per second cannot be: write one a day at least, such as 5")
        return cls(1 / rate, 1 / rate)

    def draw(self, random: float) -> float:
        """Returns the seconds of one gap. `random` is a random number from 0 to 1."""
        return self.least + (self.most - self.least) * random

    def at_least(self, other: Delay) -> Delay:
        """Returns the gap that keeps both gaps. Each end is the larger of the two."""
        return Delay(max(self.least, other.least), max(self.most, other.most))

    @property
    def mean(self) -> float:
        """The average seconds of many gaps."""
        return (self.least + self.most) / 2

    def __bool__(self) -> bool:
        """Returns whether there is any gap at all."""
        return self.most > 0

    def __str__(self) -> str:
        """Returns a text such as `0.5 s` or `0.2 to 0.8 s`."""
        return f"{self.least:g} s" if self.least == self.most else f"{self.least:g} to {self.most:g} s"


NO_DELAY: Final = Delay(0.0, 0.0)


def parse_rate(text: str) -> Delay:
    """Returns the gap of a rate such as `2/s`, `30/min` or `1/h`. Raises ValueError, with examples."""
    found = _RATE.fullmatch(text)
    if found is None or float(found[1]) == 0:
        raise ValueError(f"'{text}' is not a rate: write for example 2/s, 30/min or 100/h")
    return Delay.of(_SECONDS[found[2]] / float(found[1]))


def rate_in_words(gap: Delay) -> str:
    """Returns the rate in words, such as `2/s` or `30/min`. Without a gap it is `as fast as it goes`."""
    if not gap:
        return "as fast as it goes"
    per_second = 1 / gap.mean
    for unit, seconds in _SECONDS.items():
        if per_second * seconds >= 1 or unit == "h":
            number = per_second * seconds
            return f"{number:,.0f}/{unit}" if number >= 100 else f"{number:.3g}/{unit}"
    raise AssertionError
