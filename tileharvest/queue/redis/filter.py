"""What was seen: the filter that all workers share, and what this worker has pushed itself."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log
from struct import Struct
from typing import TYPE_CHECKING, Final

from pybloom_live.pybloom import make_hashfuncs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tileharvest.queue.port import Entry

_logger = logging.getLogger(__name__)

BITMAP_BITS: Final = 2**32
"""The longest string of Redis has 512 MB."""

LATELY: Final = 25_000
"""Requests that a worker remembers to have pushed at least. It remembers twice as many at most, which take
9 MB. A push costs a microsecond more."""


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


class KnownShapes:
    """The shapes of the filters of all segments, as this worker believes them to be.

    The first worker that pushes into a segment says which it is; the others learn it from Redis.
    """

    def __init__(self, of_new: FilterShape) -> None:
        self._of_new = of_new
        self._known: dict[str, FilterShape] = {}

    def of(self, segments: Iterable[str]) -> dict[str, FilterShape]:
        return {name: self._known.get(name, self._of_new) for name in segments}

    def keep(self, shapes: Mapping[str, FilterShape]) -> None:
        """Keep what was confirmed."""
        self._known.update(shapes)

    def learn(self, segment: str, text: str, seen: int) -> None:
        """Take another shape for the segment's. Another worker has opened it with other expectations; or its
        filter has grown just now, when it had seen so many requests."""
        self._known[segment] = learned = FilterShape(text)
        *_, (_, _, added) = learned.filters
        if seen:
            _logger.warning(
                "the filter of segment '%s' is full: %d were seen, and it was made for %d; added room for %d"
                " more. Nothing is lost; a higher SEEN_EXPECTED saves time and memory",
                segment,
                seen,
                learned.capacity - added,
                added,
            )


class Pushed:
    """An exact memory of what is surely in the queue, or was. What is new takes the place of what is oldest:
    half of it at once, as to keep the order of all would cost as much again."""

    def __init__(self, lately: int = LATELY) -> None:
        self._lately = lately
        self._new: set[tuple[str, bytes]] = set()
        self._old: set[tuple[str, bytes]] = set()

    def __contains__(self, one: tuple[str, bytes]) -> bool:
        """Returns whether this segment and fingerprint are remembered."""
        return one in self._new or one in self._old

    def add(self, entries: Iterable[Entry]) -> None:
        """Remember these. The queue must have answered for them."""
        self._new.update((one.segment, one.fingerprint) for one in entries if one.fingerprint is not None)
        if len(self._new) >= self._lately:
            self._new, self._old = set(), self._new

    def forget(self) -> None:
        """Forget everything, as the queue may have lost something."""
        self._new, self._old = set(), set()


@lru_cache(maxsize=16)
def _hashing(text: str) -> list[tuple[Callable[[str], Iterable[int]], range, Struct]]:
    found, begin = [], 0
    for hashes, bits, _ in FilterShape(text).filters:
        hash_of, _ = make_hashfuncs(hashes, bits)
        found.append((hash_of, range(begin, begin + hashes * bits, bits), Struct(f"<{hashes}I")))
        begin += hashes * bits
    return found
