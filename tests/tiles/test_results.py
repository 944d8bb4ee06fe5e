"""A result refuses parts that do not belong together."""

from __future__ import annotations

from typing import Any

import pytest

from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import TileResult
from tileharvest.tiles.versions import Image, Validator

IMAGE = {"image": Image("0" * 40, "png", 3), "body": b"abc"}


@pytest.mark.parametrize(
    ("outcome", "parts"),
    [
        (Outcome.ADDED, {}),
        (Outcome.IGNORED, IMAGE),
        (Outcome.ADDED, {**IMAGE, "body": None}),
        (Outcome.ADDED, {**IMAGE, "body": b"a"}),
        (Outcome.FAILED, {}),
        (Outcome.IGNORED, {"reason": "500"}),
        (Outcome.SKIPPED, {}),
        (Outcome.IGNORED, {"skips": True, "seen": Validator('"1"')}),
        (Outcome.IGNORED, {"doubts": True, "seen": Validator('"1"')}),
        (Outcome.IGNORED, {"doubts": True, "skips": True}),
        (Outcome.NOTHING, {"skips": True}),
        (Outcome.FAILED, {"skips": True, "reason": "500"}),
        (Outcome.ADDED, {**IMAGE, "is_kept": False}),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(outcome: Outcome, parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"outcome|bytes|asked|kept|doubted"):
        TileResult("day", Tile(0, 1, 1), outcome, **parts)
