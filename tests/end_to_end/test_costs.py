"""What a harvest cost and spared, and what fails again and again, as the commands tell it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    PATHS,
    SECOND_DAY,
    THIRD_DAY,
    Stage,
    address,
    drawn,
    staged,
    visit,
)
from tests.servers import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILING: Final = ("32", "33")
CHANGED: Final = "00"
DAYS: Final = (FIRST_DAY, SECOND_DAY, THIRD_DAY)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Asked for one tile after the other, so that their order is certain."""
    with staged(tmp_path_factory.mktemp("costs")) as stage:
        stage.project.maps_file.unlink()
        stage.project.add_map("small", f"{stage.site.url}/", concurrency=1)
        yield stage


@pytest.fixture(scope="module")
def asked(stage: Stage) -> list[list[str]]:
    """The addresses asked on each of three days, on which two tiles fail: broken off, and forbidden. On the
    second day another one changes."""
    stage.site.rules = {address(FAILING[0]): rules.broken_off(100), address(FAILING[1]): rules.status(403)}
    asked = []
    for day in DAYS:
        if day == SECOND_DAY:
            stage.files.write(CHANGED, drawn("changed"))
        stage.site.received.clear()
        visit(stage.project, day)
        asked.append([request.path for request in stage.site.received])
    return asked


@pytest.fixture(scope="module")
def told(stage: Stage, asked: list[list[str]]) -> list[dict[str, Any]]:
    """What `scrapy harvests` says of the three."""
    return stage.project.harvests("small")


def test_what_was_not_fetched_is_told_as_spared(
    stage: Stage, asked: list[list[str]], told: list[dict[str, Any]]
) -> None:
    sizes = {path: stage.files.file(path).stat().st_size for path in PATHS if path not in FAILING}
    third = told[-1]
    assert third["counts"] == {"ign": 18, "fail": 2}
    assert (third["expected"], third["requests"]) == (18, len(asked[-1]))
    assert third["spared_bytes"] == sum(sizes.values())
    assert third["stopped"] is None
    assert third["seconds_worked"] > 0


def test_what_was_fetched_is_not_told_as_spared(stage: Stage, told: list[dict[str, Any]]) -> None:
    first, second, third = told
    assert first["spared_bytes"] == 0
    changed = stage.files.file(CHANGED).stat().st_size
    assert second["spared_bytes"] == third["spared_bytes"] - changed


def test_what_fails_in_harvest_after_harvest_is_told_with_what_broke(
    stage: Stage, asked: list[list[str]]
) -> None:
    told = json.loads(stage.project.scrapy("failures", "small", "--json").stdout)
    rows = {row["tile"]: (row["reason"], row["attempts"], row["harvests"]) for row in told}
    assert rows == {
        f"{LAYER}:0_1_-3": (rows[f"{LAYER}:0_1_-3"][0], 5, 3),
        f"{LAYER}:0_3_-3": ("403 Forbidden (1 attempt)", 1, 3),
    }
    *_, line = stage.project.scrapy("failures", "small").stdout.splitlines()
    assert line.startswith("2 tiles failed in 3 harvests or more: ")
    assert all(name in line for name in rows)
