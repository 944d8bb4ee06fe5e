"""The three lanes in which requests wait, and which of them is asked first."""

from __future__ import annotations

from enum import IntEnum


class Lane(IntEnum):
    """Which queue a request waits in, in the order in which they are polled."""

    PLUS = 0
    NORMAL = 1
    MINUS = 2


def check_minus_share(share: int) -> None:
    """Raises ValueError for a share with which the minus lane would go before the others."""
    if share < 0 or share == 1:
        raise ValueError(f"minus_share {share}: 0 turns ageing off, 2 and above is one of so many")


def turns(before: int, number: int, minus_share: int) -> list[bool]:
    """Returns for each of so many polls, after those `before`, whether it asks the minus lane first.

    Of every `minus_share` polls the last does, so that the lane does not starve. A share of 0 turns that off.
    """
    return [minus_share > 0 and poll % minus_share == 0 for poll in range(before + 1, before + number + 1)]
