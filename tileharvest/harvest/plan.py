"""What a harvest will cost: from the last one, or from a sample of the map. Pure."""

from __future__ import annotations

from math import ceil, floor, isnan, log10
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tileharvest.tiles.outcomes import Outcome
from tileharvest.walk.audit import LEAST_AUDITED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from tileharvest.history.summaries import HarvestSummary, Precedent
    from tileharvest.maps.budgets import Budget
    from tileharvest.politeness.rules import Rules

USUAL_REQUESTS: Final = 200
"""The most requests of a sample unless a person says otherwise. A map of very many layers needs more."""

FIRST_LEVEL: Final = 4
"""Tiles of a layer that every walk asks, where it begins at the first level."""
_FETCHED: Final = (Outcome.NOT_MODIFIED, Outcome.UPDATED, Outcome.ADDED, Outcome.REPLACED)


class Expense(NamedTuple):
    """What a harvest, or a part of it, costs."""

    tiles: float
    """Those that are kept."""
    requests: float
    received_bytes: float
    """NaN where the site does not tell the size of a tile; every sum with it is NaN too."""
    seconds: float = 0.0
    passed: float = 0.0
    """Tiles of zooms that are not kept, which are only asked whether they exist. Only a sample tells them."""
    missing: float = 0.0
    """Places asked about in vain. Only a sample tells them."""

    def runs(self, budget: Budget) -> int:
        """Returns in how many runs a harvest is done if each may spend the budget."""
        spent = (
            (self.requests, budget.requests),
            (0 if isnan(self.received_bytes) else self.received_bytes, budget.received_bytes),
            (self.seconds, budget.seconds),
        )
        return max((1, *(ceil(amount / limit) for amount, limit in spent if limit is not None)))

    def as_plain(self) -> dict[str, Any]:
        """Returns what programs are told: the names stay, and what is not known is None."""
        return {
            "tiles": round(self.tiles),
            "requests": round(self.requests),
            "received_bytes": None if isnan(self.received_bytes) else round(self.received_bytes),
            "seconds": round(self.seconds, 1),
        }


class HarvestPlan(NamedTuple):
    """What the next harvest will cost."""

    expected: Expense
    """If the walk is full."""
    most: Expense
    least: Expense | None = None
    """None where it may cost next to nothing."""
    pruned: Expense | None = None
    """If the walk is pruned; None where that was not asked."""
    is_exact: bool = True
    """Whether numbers are told to the last digit. Those of a part of the map are not."""

    def told(self, number: float) -> int:
        """Returns a number as people are told it."""
        return round(number) if self.is_exact else two_digits(number)


def plan_by_last(last: Precedent, rules: Rules, *, audit: float, at_once: bool = False) -> HarvestPlan:
    """Returns what a harvest costs, by the last one and without asking the site.

    The full walk costs as much as the last harvest if that had asked what it skipped. At most it costs what
    that would have cost if all its tiles had changed. `at_once` says that the map's first harvest asked by
    GET alone, and that later ones ask by HEAD before.

    The pruned walk costs as much as the last pruned one. If there was none, the least that it takes is told.
    `audit` is the share of the skipped tiles that is asked all the same. A request takes as long as in the
    last full walk, or longer if the pace has become slower since.
    """
    full, counts, gap = last.full or last.summary, last.summary.counts, _mean_gap(rules)
    tiles = last.summary.present
    fetched = sum(counts.get(outcome, 0) for outcome in _FETCHED)
    # What was fetched by one request takes two from now on, as what was not fetched does.
    cheap = max(0, tiles if at_once and not last.summary.expected else tiles - fetched)
    each = max(gap, (full.took or 0.0) / max(1, full.cost.requests))
    # Only the last full walk can tell of the places with nothing that lie below skipped tiles.
    vain = max(0, full.counts.get(Outcome.NOTHING, 0) - counts.get(Outcome.NOTHING, 0))
    skipped = counts.get(Outcome.SKIPPED, 0)
    requests = last.summary.cost.requests + skipped + (vain if skipped else 0)
    received = last.summary.cost.received_bytes
    # Harvests that an older release made do not tell what was spared.
    brought = max(received + last.summary.cost.spared_bytes, last.present_bytes)
    if (pruned := last.pruned) is not None:
        seconds = max(pruned.cost.requests * gap, pruned.took or 0.0)
        next_pruned = Expense(pruned.present, pruned.cost.requests, pruned.cost.received_bytes, seconds)
    else:
        # Of a day without a change. Zones let a walk begin deeper, with fewer tiles or with more.
        layers = len(full.depth)
        audited = max(LEAST_AUDITED * layers, ceil(audit * tiles)) if audit else 0
        first = max(FIRST_LEVEL * layers, last.first_level)
        least = min(requests, first + min(tiles, audited))
        next_pruned = Expense(tiles, least, 0, least * each)
    return HarvestPlan(
        expected=Expense(tiles, requests, received, requests * each),
        most=Expense(tiles, requests + cheap, brought, (requests + cheap) * each),
        pruned=next_pruned,
    )


def why_not_pruned(last: Sequence[HarvestSummary], today: date, days: int) -> str | None:
    """Returns in words that the last two walks that began pruned cost no less than full ones: both had to ask
    for all that they had skipped.

    `last` is of `last_pruned`. Returns None where one of them has spared something, and where the latest was
    so many days ago: then it is tried again.
    """
    if len(last) < 2 or not all(one.walk == "repaired" for one in last):
        return None
    if not 0 <= (today - last[0].day).days < days:
        return None
    return f"the pruned walks of {last[1].day} and {last[0].day} had to ask for everything after all"


def _mean_gap(rules: Rules) -> float:
    """Returns the mean seconds from one start of a request to the next; quiet hours are not counted."""
    return max(rules.gap.mean, rules.host_gap.mean)


def two_digits(number: float) -> int:
    """Returns a number that is not known exactly, as people say it: 5,461 is 5,500."""
    return int(round(number, 1 - floor(log10(number)))) if number >= 100 else round(number)


def duration_in_words(seconds: float) -> str:
    """Returns a text such as `40 s`, `25 min`, `3 h 20 min` or `2 days 4 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"
