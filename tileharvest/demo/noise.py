"""Noise: numbers that look random and follow from a seed and a place. Pure.

The module `random` will not do: a place must get the same number whatever was asked before, and on every
version of Python.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_MASK: Final = 0xFFFFFFFF
_OCTAVES: Final = ((24.0, 0.55), (11.0, 0.3), (5.0, 0.15))
"""The width in blocks and the weight of each layer of noise: hills, knolls, bumps."""


@lru_cache(maxsize=1 << 16)
def chance(seed: int, x: int, z: int) -> float:
    """Returns a number from 0 up to, but not including, 1.

    The numbers of neighbouring places look independent of each other. The mixing steps are those of
    `lowbias32` (C. Wellons, "Prospecting for Hash Functions").
    """
    n = (x * 0x1F123BB5 ^ z * 0x9E3779B1 ^ seed * 0x85EBCA6B) & _MASK
    n = (n ^ n >> 16) * 0x7FEB352D & _MASK
    n = (n ^ n >> 15) * 0x846CA68B & _MASK
    return (n ^ n >> 16) / (_MASK + 1)


def rolling(seed: int, x: float, z: float) -> float:
    """Returns a number from 0 to 1 that changes smoothly from place to place, as hills do."""
    found = 0.0
    for octave, (width, weight) in enumerate(_OCTAVES, start=seed):
        column, row = int(x / width // 1), int(z / width // 1)
        across, down = (part * part * (3 - 2 * part) for part in (x / width - column, z / width - row))
        upper, lower = (
            chance(octave, column, beside) * (1 - across) + chance(octave, column + 1, beside) * across
            for beside in (row, row + 1)
        )
        found += weight * (upper * (1 - down) + lower * down)
    return found
