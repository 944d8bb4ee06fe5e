"""Results refuse parts that do not belong together."""

from typing import Any

import pytest

from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import Step, TileResult
from tileharvest.tiles.versions import Image

IMAGE = {"image": Image("0" * 40, "png", 3), "body": b"abc"}


@pytest.mark.parametrize(
    ("outcome", "parts"),
    [
        (Outcome.ADDED, {}),
        (Outcome.IGNORED, IMAGE),
        (Outcome.IGNORED, {"body": b"a"}),
        (Outcome.ADDED, {**IMAGE, "body": b"a"}),
        (Outcome.FAILED, {}),
        (Outcome.IGNORED, {"reason": "500"}),
        (Outcome.SKIPPED, {}),
        (Outcome.NOTHING, {"step": Step(skips=True)}),
        (Outcome.FAILED, {"step": Step(skips=True), "reason": "500"}),
        (Outcome.ADDED, {**IMAGE, "step": Step(is_kept=False)}),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(outcome: Outcome, parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"outcome|bytes|asked|kept"):
        TileResult("day", Tile(0, 1, 1), outcome, **parts)
