"""The filter that knows at once which requests are surely new."""

from __future__ import annotations

from typing import Final

from pybloom_live import BloomFilter

_SMALLEST: Final = 1_000
"""The least number of requests for which the first filter has room: 4 kB."""


class SeenFilter:
    """Fingerprints that were seen, in a row of Bloom filters.

    Guarantee: there are no false negatives. A fingerprint that was added is never called new again, so
    whatever is called new is new. A new fingerprint is called seen with a probability below `error_rate`,
    however often the filter grows: the first Bloom filter may err half as often, and each further one half as
    often as the one before.

    It takes 3.8 bytes for each request for which there is room, at the error rate of one in a million. It
    grows by a Bloom filter with room for as many as were seen. It is not thread-safe.
    """

    def __init__(self, expected: int, error_rate: float = 1e-6) -> None:
        """`expected` is the number of requests for which there is room at first."""
        self._full: list[BloomFilter] = []
        self._filling = BloomFilter(max(expected, _SMALLEST), error_rate / 2)

    def add(self, fingerprint: bytes) -> bool:
        """Adds the fingerprint. Returns True if it was probably seen before, and False if it is surely
        new."""
        # pybloom hashes the UTF-8 of `str(key)`. For bytes that would be their longer `repr`.
        key = fingerprint.hex()
        if self._full and any(key in bloom for bloom in self._full):
            return True
        # pybloom raises IndexError only when it has one more than its capacity.
        if self._filling.count >= self._filling.capacity:
            if key in self._filling:
                return True
            self._full.append(self._filling)
            seen = sum(bloom.count for bloom in self._full)
            self._filling = BloomFilter(seen, self._filling.error_rate / 2)
        return bool(self._filling.add(key))
