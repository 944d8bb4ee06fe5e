"""The comparison of what a harvest counted with what the world predicts. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tileharvest.errors import HistoryError
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from datetime import date

Counts = Mapping[Outcome, int]


def counts_of(listing: str, day: date) -> dict[Outcome, int] | None:
    """Returns the counts of a day's harvest, from what `scrapy harvests NAME --json` prints.

    Returns None when no harvest of that day is listed. Raises HistoryError when the text is no such list.
    """
    try:
        harvests = [entry["counts"] for entry in json.loads(listing) if entry["day"] == day.isoformat()]
        counts = [{Outcome(word): int(number) for word, number in each.items()} for each in harvests]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HistoryError(f"the list of harvests is not as expected ({error!r}): {listing[:80]!r}") from None
    return counts[-1] if counts else None


def verdict(day: date, found: Counts | None, predicted: Counts) -> str:
    """Returns one line: `day 2026-11-18: as predicted`, or each outcome that differs, with both numbers."""
    if found is None:
        return f"day {day}: no harvest is recorded"
    differing = [word for word in Outcome if found.get(word, 0) != predicted.get(word, 0)]
    if not differing:
        return f"day {day}: as predicted"
    parts = (f"{word} {found.get(word, 0)} instead of {predicted.get(word, 0)}" for word in differing)
    return f"day {day}: NOT as predicted: {', '.join(parts)}"


def matches(found: Counts | None, predicted: Counts) -> bool:
    return found is not None and all(found.get(word, 0) == predicted.get(word, 0) for word in Outcome)
