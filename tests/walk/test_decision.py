"""When a walk is pruned, and what is said of it."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from tileharvest.tiles.pyramid import Pyramid
from tileharvest.walk.change_index import ChangedGround, ChangeIndex, StoredIndex
from tileharvest.walk.decision import Decisions, decide
from tileharvest.walk.proof import Proof

TODAY = date(2021, 2, 20)
PROVED = Proof(TODAY, pairs=400, broken=0, undated=0, span=86400.0)
BROKEN = replace(PROVED, broken=1)


@pytest.mark.parametrize(
    ("wish", "proof", "withdrawn", "days", "is_pruned"),
    [
        ("auto", PROVED, None, 1, True),
        ("auto", PROVED, None, 0, True),
        ("auto", PROVED, None, 6, True),
        ("auto", PROVED, None, 7, False),
        ("auto", PROVED, None, None, False),
        ("auto", PROVED, None, -1, False),
        ("auto", PROVED, "a tile had changed", 1, False),
        ("auto", BROKEN, None, 1, False),
        ("auto", None, None, 1, False),
        ("pruned", None, None, 1, True),
        ("pruned", BROKEN, None, 1, True),
        ("pruned", PROVED, "a tile had changed", 1, False),
        ("pruned", PROVED, None, 7, False),
        ("pruned", PROVED, None, None, False),
        ("full", PROVED, None, 1, False),
    ],
)
def test_walk_is_pruned_only_as_wished_and_proved_and_for_some_days(wish, proof, withdrawn, days, is_pruned):
    last_full = None if days is None else TODAY - timedelta(days=days)
    stored = proof and replace(proof, withdrawn=withdrawn, withdrawn_day=withdrawn and TODAY)
    assert decide(wish, stored, last_full, TODAY, 7).is_pruned is is_pruned


def test_of_one_zoom_a_share_is_asked() -> None:
    decisions = Decisions({"zoom11": decide("auto", None, TODAY, TODAY, 7, "nobody says so")})
    shared = decisions.sharing(decisions.layers, 7)
    assert (decisions.kind, shared.kind, shared.in_short) == ("full", "share", "share")
    assert shared.layers["zoom11"].in_words == (
        "share: of the empty places of its only zoom a share is asked, all of them within 7 days"
    )


def test_what_a_change_index_says_decides_unless_it_could_not_be_read() -> None:
    index = StoredIndex(ChangeIndex("a"), TODAY)
    decisions = Decisions({"a": decide("auto", PROVED, TODAY, TODAY, 7, index=index)})
    unread = decisions.with_grounds({}, ()).layers["a"]
    assert (unread.way, unread.change_index) == ("pruned", None)
    nothing = ChangedGround((), Pyramid(3))
    said = {
        name: decisions.with_grounds(grounds, ["a"]).layers["a"].reason
        for name, grounds in (
            ("nothing", {"a": nothing}),
            ("one", {"a": ChangedGround([(0, 1, 1)], Pyramid(3))}),
            ("all", {}),
        )
    }
    assert said["nothing"] == f"its change index says that nothing has changed since {TODAY}"
    assert said["one"] == f"its change index says that 1 tile may have changed since {TODAY}"
    assert said["all"].startswith("its change index says that all of it may have changed; none of 400 tiles")
