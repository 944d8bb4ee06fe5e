"""What a harvest will cost: from the last one, or from a sample of the map. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isnan, log10
from typing import TYPE_CHECKING, Final

from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from tileharvest.harvest.sample import Amounts, Estimate
    from tileharvest.history.summaries import HarvestSummary, Precedent
    from tileharvest.maps.budgets import Budget
    from tileharvest.maps.rates import Gap
    from tileharvest.politeness.rules import Rules

FIRST_LEVEL: Final = 4
"""Tiles of a layer that every walk asks, where it begins at the first level."""
_FETCHED: Final = (Outcome.NOT_MODIFIED, Outcome.UPDATED, Outcome.ADDED, Outcome.REPLACED)


@dataclass(frozen=True, slots=True)
class Expense:
    """What a harvest costs."""

    tiles: float
    requests: float
    received_bytes: float | None
    """None where it is not known."""
    seconds: float

    def runs(self, budget: Budget) -> int:
        """In how many runs a harvest is done if each may spend the budget."""
        spent = (
            (self.requests, budget.requests),
            (self.received_bytes or 0, budget.received_bytes),
            (self.seconds, budget.seconds),
        )
        return max((1, *(ceil(amount / limit) for amount, limit in spent if limit is not None)))


@dataclass(frozen=True, slots=True)
class HarvestPlan:
    """What the next harvest will cost."""

    expected: Expense
    """If the walk is full."""
    most: Expense
    least: Expense | None = None
    """None where it may cost next to nothing."""
    pruned: Expense | None = None
    """If the walk is pruned; None where that was not asked."""


def plan_by_last(last: Precedent, rules: Rules, *, audit: float = 0.0, least_audited: int = 0) -> HarvestPlan:
    """The full walk costs as much as the last harvest if that had asked what it skipped; at most it costs
    what that would have cost if all its tiles had changed.

    The pruned walk costs as much as the last pruned one. If there was none, the least that it takes is told.
    `audit` is the share of the skipped tiles that is asked all the same, and `least_audited` how many are in
    each layer whatever the share is. A request takes as long as in the last full walk, or longer if the
    pace has become slower since.
    """
    full, counts, gap = last.full or last.summary, last.summary.counts, _mean_gap(rules)
    tiles = _present(last.summary)
    unfetched = max(0, tiles - sum(counts.get(outcome, 0) for outcome in _FETCHED))
    each = max(gap, (full.took or 0.0) / max(1, full.requests))
    # Only the last full walk can tell of the places with nothing that lie below skipped tiles.
    vain = max(0, full.counts.get(Outcome.NOTHING, 0) - counts.get(Outcome.NOTHING, 0))
    skipped = counts.get(Outcome.SKIPPED, 0)
    requests = last.summary.requests + skipped + (vain if skipped else 0)
    received = last.summary.received_bytes
    # Harvests that an older release made do not tell what was spared.
    brought = max(received + last.summary.spared_bytes, last.present_bytes)
    if (pruned := last.pruned) is not None:
        seconds = max(pruned.requests * gap, pruned.took or 0.0)
        next_pruned = Expense(_present(pruned), pruned.requests, pruned.received_bytes, seconds)
    else:
        # Of a day without a change. Zones let a walk begin deeper, with fewer tiles or with more.
        layers = len(full.depth)
        audited = max(least_audited * layers, ceil(audit * tiles)) if audit else 0
        least = min(requests, FIRST_LEVEL * layers + min(tiles, audited))
        next_pruned = Expense(tiles, least, 0, least * each)
    return HarvestPlan(
        expected=Expense(tiles, requests, received, requests * each),
        most=Expense(tiles, requests + unfetched, brought, (requests + unfetched) * each),
        pruned=next_pruned,
    )


def _present(harvest: HarvestSummary) -> int:
    """Tiles that it knew to be there when it ended."""
    counts = harvest.counts
    return sum(counts.values()) - counts.get(Outcome.NOTHING, 0) - counts.get(Outcome.GONE, 0)


def plan_by_sample(
    estimate: Estimate, rules: Rules, *, looking: int, crawl_gap: Gap, latency: float
) -> HarvestPlan:
    """A harvest that fetches every tile.

    `looking`: requests before the first one for a tile; `crawl_gap`: between two requests, as robots.txt
    wants it; `latency`: seconds from a request to its answer.
    """
    each = max(_mean_gap(rules), crawl_gap.mean, latency / rules.concurrency)

    def expense(amounts: Amounts) -> Expense:
        received = None if isnan(amounts.received_bytes) else amounts.received_bytes
        requests = looking + amounts.requests
        return Expense(amounts.tiles, requests, received, requests * each)

    return HarvestPlan(expense(estimate.expected), expense(estimate.most), expense(estimate.least))


def _mean_gap(rules: Rules) -> float:
    """Mean seconds from the start of one request to that of the next; quiet hours are not counted."""
    return max(rules.gap.mean, rules.host_gap.mean)


def two_digits(number: float) -> int:
    """A number that is not known exactly, as people say it: 5,461 is 5,500."""
    return int(round(number, 1 - floor(log10(number)))) if number >= 100 else round(number)


def duration_in_words(seconds: float) -> str:
    """Such as `40 s`, `25 min`, `3 h 20 min`, `2 days 4 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"
