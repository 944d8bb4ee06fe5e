"""The filter of what was seen, which all workers share: its shape, and the places of a fingerprint."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log
from struct import Struct
from typing import TYPE_CHECKING, Final

from pybloom_live.pybloom import make_hashfuncs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_logger = logging.getLogger(__name__)

BITMAP_BITS: Final = 2**32
"""The longest string of Redis has 512 MB."""


@dataclass(frozen=True, slots=True)
class FilterShape:
    """The form of a filter. All workers must agree on it, or they would look at different bits.

    `text` is how it stands in Redis: the hashes, the bits of each and the capacity of one filter or, after
    it has grown, of several that follow each other in the bitmap, such as `30 1439 1000;31 1443 1000`. A
    hash has its bits for itself. The scripts make a filter grow, by another one of half the error rate and
    at least the capacity of all before; so a new request is taken for a seen one less than twice as often
    as was asked for.
    """

    text: str

    @classmethod
    def fitting(cls, expected: int, error_rate: float) -> FilterShape:
        """Returns the shape for as many requests as expected. Its size is pybloom-live's: 43.1 bits for each
        request at an error rate of one in a billion. Raises ValueError for what no bitmap of Redis can do."""
        if expected < 1:
            raise ValueError(f"a filter for {expected} requests would be full at once")
        if not 0 < error_rate < 1:
            raise ValueError(f"error rate {error_rate} is no probability between 0 and 1")
        # Not log2: pybloom-live rounds as this does.
        hashes = ceil(log(1 / error_rate, 2))  # noqa: FURB163
        bits = ceil(expected * -log(error_rate) / (hashes * log(2) ** 2))
        if hashes * bits > BITMAP_BITS:
            most = int(expected * BITMAP_BITS / (hashes * bits))
            raise ValueError(f"a filter for {expected} requests is too large for Redis: {most} are possible")
        return cls(f"{hashes} {bits} {expected}")

    @property
    def filters(self) -> list[tuple[int, int, int]]:
        """Returns hashes, bits of each, and capacity of each filter."""
        parts = [part.split() for part in self.text.split(";")]
        return [(int(hashes), int(bits), int(capacity)) for hashes, bits, capacity in parts]

    @property
    def capacity(self) -> int:
        return sum(capacity for _, _, capacity in self.filters)

    def places(self, fingerprint: bytes) -> bytes:
        """Returns the numbers of the bits of this fingerprint, 4 bytes each, the lowest first. In each filter
        they are those that pybloom-live sets for the fingerprint's hexadecimal text, as does `SeenFilter`."""
        key = fingerprint.hex()
        return b"".join(
            numbers.pack(*map(int.__add__, hash_of(key), slices))
            for hash_of, slices, numbers in _hashing(self.text)
        )


def warn_of_growth(segment: str, shape: FilterShape, seen: int) -> None:
    """Warn that the filter of the segment has grown to this shape, when it had seen so many requests."""
    *_, (_, _, added) = shape.filters
    _logger.warning(
        "the filter of segment '%s' is full: %d were seen, and it was made for %d; added room for %d"
        " more. Nothing is lost; a higher SEEN_EXPECTED saves time and memory",
        segment,
        seen,
        shape.capacity - added,
        added,
    )


@lru_cache(maxsize=16)
def _hashing(text: str) -> list[tuple[Callable[[str], Iterable[int]], range, Struct]]:
    found, begin = [], 0
    for hashes, bits, _ in FilterShape(text).filters:
        hash_of, _ = make_hashfuncs(hashes, bits)
        found.append((hash_of, range(begin, begin + hashes * bits, bits), Struct(f"<{hashes}I")))
        begin += hashes * bits
    return found
