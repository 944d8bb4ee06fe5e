"""The order in which several maps begin. Pure."""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.history.costs import Cost
    from tileharvest.politeness.rules import Rules


def longest_first(rules: Mapping[str, Rules], costs: Mapping[str, Cost]) -> list[str]:
    """Returns the maps in the order of how long they are expected to take, the longest first.

    What takes longest decides when the last map is done, so it must not begin last. `costs` are those of the
    maps' last finished harvests. A map without any comes first: all of it is to be fetched. Maps that are
    expected to take equally long keep their order.
    """
    by_host: defaultdict[str, int] = defaultdict(int)
    for name, cost in costs.items():
        if name in rules:
            by_host[rules[name].host] += cost.requests

    def seconds(name: str) -> float:
        if name not in costs:
            return inf
        its, cost = rules[name], costs[name]
        # Without any limit it takes as long as last time. The maps of a host have to share its limit.
        own = cost.requests * its.gap.mean if its.gap else cost.seconds
        return max(own, by_host[its.host] * its.host_gap.mean)

    return sorted(rules, key=seconds, reverse=True)
