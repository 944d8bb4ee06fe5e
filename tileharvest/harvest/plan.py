"""The plan of a harvest: its cost by the last harvest, or by a sample of the map. Pure."""

from __future__ import annotations

from math import ceil, floor, isnan, log10
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tileharvest.tiles.outcomes import FETCHED, Outcome
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
"""The number of tiles of a layer that every walk asks, if it begins at the first level."""


class Expense(NamedTuple):
    """The cost of a harvest, or of a part of it."""

    tiles: float
    """The number of tiles that are kept."""
    requests: float
    received_bytes: float
    """Bytes of bodies. NaN if the site does not tell the size of a tile; every sum with it is NaN, too."""
    seconds: float = 0.0
    passed: float = 0.0
    """The number of tiles at zooms that are not kept, which are only asked whether they exist. Only a sample
    tells it."""
    missing: float = 0.0
    """The number of places that are asked and have no tile. Only a sample tells it."""

    def runs(self, budget: Budget) -> int:
        """Returns the number of runs that a harvest takes if each run may spend the budget."""
        spent = (
            (self.requests, budget.requests),
            (0 if isnan(self.received_bytes) else self.received_bytes, budget.received_bytes),
            (self.seconds, budget.seconds),
        )
        return max((1, *(ceil(amount / limit) for amount, limit in spent if limit is not None)))

    def as_plain(self) -> dict[str, Any]:
        """Returns the cost for programs. The names never change, and an unknown number is None."""
        return {
            "tiles": round(self.tiles),
            "requests": round(self.requests),
            "received_bytes": None if isnan(self.received_bytes) else round(self.received_bytes),
            "seconds": round(self.seconds, 1),
        }


class HarvestPlan(NamedTuple):
    """The cost of the next harvest."""

    expected: Expense
    """The cost of a full walk."""
    most: Expense
    """The most that a full walk may cost."""
    least: Expense | None = None
    """The least that a full walk may cost. None if it may cost next to nothing."""
    pruned: Expense | None = None
    """The cost of a pruned walk. A plan by a sample has none."""
    is_exact: bool = True
    """Whether numbers are told to the last digit. They are not if only a part of the map was sampled."""

    def told(self, number: float) -> int:
        """Returns a number of the plan as it is shown to people."""
        return round(number) if self.is_exact else two_digits(number)


def plan_by_last(last: Precedent, rules: Rules, *, audit: float, at_once: bool = False) -> HarvestPlan:
    """Returns the cost of the next harvest by the last one, without asking the site.

    A full walk costs as much as the last harvest would have if it had asked what it skipped. The most is the
    cost of that harvest if all of its tiles had changed. `at_once` says that the map's first harvest asked by
    GET alone, while later ones ask by HEAD before.

    A pruned walk costs as much as the last pruned one. If there was none, its cost is the least that a pruned
    walk takes. `audit` is the share of the skipped tiles that is asked all the same. A request takes as long
    as in the last full walk, or longer if the map's limit is slower now.
    """
    full, counts, gap = last.full or last.summary, last.summary.counts, _mean_gap(rules)
    tiles = last.summary.present
    fetched = sum(counts.get(outcome, 0) for outcome in FETCHED)
    # The tiles that would take one more request if they had changed: those that were not fetched, and those
    # that a first harvest fetched by one request, as each changed tile takes two later.
    cheap = max(0, tiles if at_once and not last.summary.expected else tiles - fetched)
    each = max(gap, (full.took or 0.0) / max(1, full.cost.requests))
    # Only the last full walk tells how many empty places lie below skipped tiles.
    vain = max(0, full.counts.get(Outcome.NOTHING, 0) - counts.get(Outcome.NOTHING, 0))
    skipped = counts.get(Outcome.SKIPPED, 0)
    requests = last.summary.cost.requests + skipped + (vain if skipped else 0)
    received = last.summary.cost.received_bytes
    # Harvests of old releases do not tell the spared bytes.
    brought = max(received + last.summary.cost.spared_bytes, last.present_bytes)
    if (pruned := last.pruned) is not None:
        seconds = max(pruned.cost.requests * gap, pruned.took or 0.0)
        next_pruned = Expense(pruned.present, pruned.cost.requests, pruned.cost.received_bytes, seconds)
    else:
        # The cost of a day without a change. With zones a walk begins deeper, with fewer or more tiles.
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


def why_not_pruned(
    last: Sequence[HarvestSummary], full: HarvestSummary | None, today: date, full_every: int
) -> str | None:
    """Returns a reason against a pruned walk if the last two that began pruned asked more tiles on average
    than the last full one, or both had to ask for everything that they had skipped.

    `last` is returned by `last_pruned`, and `full` by `last_in_full`. Returns None if the pruned walks did
    not ask more. Also returns None if the latest was at least `full_every` days ago, so that a pruned walk
    is tried again.

    Tiles are compared and not requests, because a process that is killed leaves its requests counted too
    high: the next walk is then the same with and without the kill.
    """
    if len(last) < 2 or not 0 <= (today - last[0].day).days < full_every:
        return None
    walks = f"the pruned walks of {last[1].day} and {last[0].day}"
    if all(one.walk == "repaired" for one in last):
        return f"{walks} had to ask for everything after all"
    if full is None:
        return None
    later, sooner, in_full = (_asked(one) for one in (*last, full))
    if sooner + later <= 2 * in_full:
        return None
    return f"{walks} asked {sooner:,} and {later:,} tiles, and the full one of {full.day} asked {in_full:,}"


def _asked(harvest: HarvestSummary) -> int:
    """Returns the number of tiles that a harvest has asked, empty places among them. A tile that was asked
    several times counts once."""
    return sum(harvest.counts.values()) - harvest.counts.get(Outcome.SKIPPED, 0)


def _mean_gap(rules: Rules) -> float:
    """Returns the mean seconds from one start of a request to the next. Quiet hours are not counted."""
    return max(rules.gap.mean, rules.host_gap.mean)


def two_digits(number: float) -> int:
    """Returns a number of 100 and more rounded to two digits: 5,461 becomes 5,500."""
    return int(round(number, 1 - floor(log10(number)))) if number >= 100 else round(number)
