"""What a harvest will cost: from the last one, or from a sample of the map. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final

from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.harvest.sample import Estimate, Quantity
    from tileharvest.history.summaries import HarvestSummary, Precedent
    from tileharvest.maps.budgets import Budget
    from tileharvest.maps.rates import Gap
    from tileharvest.politeness.courtesy import Courtesy

FIRST_LEVEL: Final = 4
"""Tiles of a layer that every walk asks, where it begins at the first level."""
_FETCHED: Final = (Outcome.NOT_MODIFIED, Outcome.UPDATED, Outcome.ADDED, Outcome.REPLACED)


@dataclass(frozen=True, slots=True)
class Expense:
    """What a harvest costs."""

    tiles: float
    requests: float
    received_bytes: float | None
    """None where nobody knows."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What the next harvest will cost."""

    expected: Expense
    least: Expense | None
    """None where it may cost next to nothing."""
    most: Expense
    pruned: Expense | None = None
    """If the walk is pruned; `expected` is if it is full. None where that was not asked."""


def plan_by_last(last: Precedent, courtesy: Courtesy, *, audit: float = 0.0, least_audited: int = 0) -> Plan:
    """As the last harvest, whatever it skipped asked as well; at most what that would have cost if all its
    tiles had changed.

    The pruned walk as the last one was, or, without one, the least that it takes. `audit`: the share of the
    skipped tiles that is asked all the same; `least_audited`: how many are, in each layer, whatever the share
    is; both as `walking`. It takes as long for a request as the last full walk, or longer if the pace has
    become slower since.
    """
    full, counts, gap = last.full or last.summary, last.summary.counts, mean_gap(courtesy)
    tiles = _present(last.summary)
    unfetched = max(0, tiles - sum(counts.get(outcome, 0) for outcome in _FETCHED))
    each = max(gap, (full.took or 0.0) / max(1, full.requests))
    # Of the places with nothing below skipped tiles only the last full walk can tell.
    vain = max(0, full.counts.get(Outcome.NOTHING, 0) - counts.get(Outcome.NOTHING, 0))
    skipped = counts.get(Outcome.SKIPPED, 0)
    requests = last.summary.requests + skipped + (vain if skipped else 0)
    received = last.summary.received_bytes
    # What was spared is not known of harvests that an older release made.
    brought = max(received + last.summary.spared_bytes, last.present_bytes)
    return Plan(
        Expense(tiles, requests, received, requests * each),
        None,
        Expense(tiles, requests + unfetched, brought, (requests + unfetched) * each),
        _as_last_pruned(last.pruned, gap)
        or _least_pruned(tiles, requests, each, len(full.depth), audit, least_audited),
    )


def _as_last_pruned(pruned: HarvestSummary | None, gap: float) -> Expense | None:
    if pruned is None:
        return None
    seconds = max(pruned.requests * gap, pruned.took or 0.0)
    return Expense(_present(pruned), pruned.requests, pruned.received_bytes, seconds)


def _least_pruned(
    tiles: int, requests: int, each: float, layers: int, audit: float, least_audited: int
) -> Expense:
    """Of a day without a change. Where zones let a walk begin deeper, it begins with fewer tiles, or more."""
    audited = max(least_audited * layers, ceil(audit * tiles)) if audit else 0
    least = min(requests, FIRST_LEVEL * layers + min(tiles, audited))
    return Expense(tiles, least, 0, least * each)


def _present(harvest: HarvestSummary) -> int:
    """Tiles that it knew to be there when it ended."""
    counts = harvest.counts
    return sum(counts.values()) - counts.get(Outcome.NOTHING, 0) - counts.get(Outcome.GONE, 0)


def plan_by_sample(
    estimate: Estimate, courtesy: Courtesy, *, looking: int, crawl_gap: Gap, latency: float
) -> Plan:
    """A harvest that fetches every tile.

    `looking`: requests before the first one for a tile; `crawl_gap`: as the site's robots.txt wants it;
    `latency`: seconds from a request to its answer.
    """
    each = max(mean_gap(courtesy), crawl_gap.mean, latency / courtesy.concurrency)

    def expense(part: Callable[[Quantity], float]) -> Expense:
        received = None if estimate.received_bytes is None else part(estimate.received_bytes)
        requests = looking + part(estimate.requests)
        return Expense(part(estimate.tiles), requests, received, requests * each)

    return Plan(
        expense(lambda quantity: quantity.expected),
        expense(lambda quantity: quantity.least),
        expense(lambda quantity: quantity.most),
    )


def mean_gap(courtesy: Courtesy) -> float:
    """Seconds from the start of one request to that of the next, over many; quiet hours not counted."""
    return max(courtesy.gap.mean, courtesy.host_gap.mean)


def runs_needed(expense: Expense, budget: Budget) -> int:
    """In how many runs a harvest is done of which each may spend the budget."""
    spent = (
        (expense.requests, budget.requests),
        (expense.received_bytes or 0, budget.received_bytes),
        (expense.seconds, budget.seconds),
    )
    return max((1, *(ceil(amount / limit) for amount, limit in spent if limit is not None)))


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
