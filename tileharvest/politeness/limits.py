"""Limits that end a harvest before its time: the daily budget, and the room on the disk."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final, TypeVar

from tileharvest.errors import BudgetError
from tileharvest.maps.budgets import OF_DAY, PARTS, Budget, amount_in_words, bytes_in_words

if TYPE_CHECKING:
    from pathlib import Path

    from tileharvest.history.costs import Cost

_Number = TypeVar("_Number", int, float)


def budget_of_run(name: str, budget: Budget, daily: Budget, spent: Cost) -> Budget:
    """Returns the budget of one run of a map: `budget`, or what is left of the `daily` one where that is
    less.

    Raises BudgetError if nothing of the daily budget is left. Nothing was asked then.
    """
    costs = (spent.requests, spent.received_bytes, spent.seconds)
    for what, most, already in zip(PARTS, daily.limits, costs, strict=True):
        # A run that could only probe the site is not worth its requests, and nothing would record it.
        least = TO_BEGIN if what == "requests" else 0
        if most is not None and already + least >= most:
            limit = amount_in_words(most, what)
            raise BudgetError(
                f"map '{name}' has spent its daily budget ({amount_in_words(already, what)} of {limit});"
                " nothing was asked; run it again tomorrow to go on",
                f"{OF_DAY}: {limit}",
                has_begun=False,
            )
    return Budget(
        _less(budget.requests, daily.requests, spent.requests),
        _less(budget.received_bytes, daily.received_bytes, spent.received_bytes),
        _less(budget.seconds, daily.seconds, spent.seconds),
    )


def _less(most: _Number | None, of_day: _Number | None, spent: _Number) -> _Number | None:
    if of_day is None:
        return most
    return of_day - spent if most is None else min(most, of_day - spent)


TO_BEGIN: Final = 2
"""Requests before the first tile: robots.txt and the map's configuration."""


def check_room(folder: Path, least: int, coming: int = 0, *, is_all_kept: bool = True) -> None:
    """Raises BudgetError if fewer than `least` bytes would be free after `coming` more bytes.

    The disk is that of the folder, or of the nearest folder above it that exists. The error gets
    `is_all_kept`. To look at the disk takes some microseconds.
    """
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    left = shutil.disk_usage(place).free
    if left - coming < least:
        raise BudgetError(
            f"only {bytes_in_words(left)} are free in {folder}, and min_free is {bytes_in_words(least)}: the"
            " harvest ends; what was found is kept; make room, then run it again to go on",
            f"min_free: {bytes_in_words(least)}",
            is_all_kept=is_all_kept,
        )
