"""What fails in harvest after harvest, as `scrapy failures` tells it."""

import json
from pathlib import Path

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    SECOND_DAY,
    THIRD_DAY,
    address,
    staged,
    visit,
)
from tests.servers import rules


def test_what_fails_in_harvest_after_harvest_is_told_with_what_broke(tmp_path: Path) -> None:
    """One tile is broken off, and the other one is forbidden."""
    with staged(tmp_path) as stage:
        # One request at a time: after a failure on the way a 403 might be taken for a limit.
        stage.describe(concurrency=1)
        stage.site.rules = {address("32"): rules.broken_off(100), address("33"): rules.status(403)}
        for day in (FIRST_DAY, SECOND_DAY, THIRD_DAY):
            visit(stage.project, day)
        told = json.loads(stage.project.scrapy("failures", "small", "--json").stdout)
        rows = {row["tile"]: (row["reason"], row["harvests"]) for row in told}
        assert rows == {
            f"{LAYER}:0_1_-3": (rows[f"{LAYER}:0_1_-3"][0], 3),
            f"{LAYER}:0_3_-3": ("403 Forbidden (2 attempts)", 3),
        }
        *_, line = stage.project.scrapy("failures", "small").stdout.splitlines()
        assert line.startswith("2 tiles failed in 3 harvests or more: ")
        assert all(name in line for name in rows)
