"""When a walk is pruned, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

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


def test_decision_tells_what_was_found_wrong():
    stored = replace(PROVED, withdrawn="tile 0_1_1 had changed", withdrawn_day=TODAY)
    decision = decide("auto", stored, TODAY, TODAY, 7)
    assert "tile 0_1_1 had changed" in decision.reason


def test_of_one_zoom_a_share_is_asked() -> None:
    decisions = Decisions({"zoom11": decide("auto", None, TODAY, TODAY, 7, "nobody says so")})
    shared = decisions.sharing(decisions.layers, 7)
    assert (decisions.kind, shared.kind, shared.in_short) == ("full", "share", "share")
    assert shared.layers["zoom11"].in_words == (
        "share: of the empty places of its only zoom a share is asked, all of them within 7 days"
    )
