"""What `scrapy maps` says below its table."""

from datetime import date

import pytest

from tileharvest.commands.maps import reasons
from tileharvest.walk.decision import Decision, Decisions
from tileharvest.walk.proof import Proof

FULL, PRUNED = Decision(False, "walk = full is set"), Decision(True, "walk = pruned is set")


def test_layers_that_are_walked_alike_share_a_line_and_others_have_their_own() -> None:
    walks = {
        "new": Decisions({}),
        "one": Decisions({"day": FULL, "night": FULL}),
        "two": Decisions({"day": FULL, "night": PRUNED}),
    }
    assert reasons(walks) == [
        "one: the next walk is full: walk = full is set",
        "two, layer day: the next walk is full: walk = full is set",
        "two, layer night: the next walk is pruned: walk = pruned is set",
    ]


@pytest.mark.parametrize(("broken", "why"), [(0, ""), (12, ": the host does not keep the times of renders")])
def test_what_a_pruned_walk_spares_stands_below_its_reason(broken: int, why: str) -> None:
    proof = Proof(date(2021, 2, 16), 314, broken, 0, 86400.0)
    walks = {"one": Decisions({"day": Decision(True, "walk = pruned is set", proof)}), "two": Decisions({})}
    assert reasons(walks, {"one": 0.789})[1:] == [f"one: the last pruned walk asked 79 % of the tiles{why}"]
