"""The three lanes in which requests wait, and which of them is asked first."""

from __future__ import annotations

from enum import IntEnum


class Lane(IntEnum):
    """Which queue a request waits in, in the order in which they are polled."""

    PLUS = 0
    NORMAL = 1
    MINUS = 2


class Turns:
    """Keeps the minus lane from starving: of every `minus_share` polls the last asks it first.

    A share of 0 turns the ageing off. Not thread-safe.
    """

    def __init__(self, minus_share: int = 16) -> None:
        if minus_share < 0 or minus_share == 1:
            raise ValueError(f"minus_share {minus_share}: 0 turns ageing off, 2 and above is one of so many")
        self._share = minus_share
        self._polls = 0

    def next_is_minus(self) -> bool:
        """Returns whether the next poll asks the minus lane first. Each call is a poll."""
        if not self._share:
            return False
        self._polls = (self._polls + 1) % self._share
        return self._polls == 0
