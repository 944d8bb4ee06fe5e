"""What `scrapy maps` says below its table."""

from tileharvest.commands.maps import reasons
from tileharvest.walk.decision import Decision, Decisions

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
