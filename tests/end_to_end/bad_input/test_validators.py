"""Servers without ETags, with weak ones, or with others for HEAD than for GET."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    SECOND_DAY,
    Found,
    Stage,
    Visit,
    address,
    asked,
    found,
    methods,
    versions,
    visit,
)
from tests.servers import rules

WITHOUT_ETAG, WITHOUT_ANYTHING, WEAK, WEAK_THEN_STRONG, HEAD_DIFFERS = "00", "01", "10", "11", "20"
STRONG = "21"
RULES = {
    WITHOUT_ETAG: rules.without_etag(),
    WITHOUT_ANYTHING: rules.without_validators(),
    WEAK: rules.weak_etag(),
    WEAK_THEN_STRONG: rules.weak_etag(),
    HEAD_DIFFERS: rules.head_with_another_etag(),
}


class SecondDay(NamedTuple):
    stage: Stage
    visit: Visit
    found: dict[str, Found]


@pytest.fixture(scope="module")
def second_day(shared_stage: Stage) -> SecondDay:
    """The second of two harvests. Between them one ETag becomes strong, and nothing else changes."""
    site, project = shared_stage.site, shared_stage.project
    site.rules = {address(path): rule for path, rule in RULES.items()}
    visit(project, FIRST_DAY)
    site.received.clear()
    del site.rules[address(WEAK_THEN_STRONG)]
    return SecondDay(shared_stage, visit(project, SECOND_DAY), found(project))


@pytest.mark.parametrize(
    ("path", "outcome", "requests"),
    [
        pytest.param(STRONG, "ign", ["HEAD"], id="an ETag"),
        pytest.param(WITHOUT_ETAG, "ign", ["HEAD"], id="time and length stand in for the ETag"),
        pytest.param(WITHOUT_ANYTHING, "nMod", ["HEAD", "GET"], id="nothing to compare"),
        pytest.param(WEAK, "ign", ["HEAD"], id="a weak ETag"),
        pytest.param(WEAK_THEN_STRONG, "ign", ["HEAD"], id="a weak ETag that is strong now"),
        pytest.param(HEAD_DIFFERS, "nMod", ["HEAD", "GET"], id="HEAD and GET never agree"),
    ],
)
def test_an_unchanged_tile_is_fetched_only_where_nothing_else_can_tell(
    second_day: SecondDay, path: str, outcome: str, requests: list[str]
) -> None:
    assert second_day.found[path].outcome == outcome
    assert methods(second_day.stage.site, path) == requests


def test_the_etag_kept_is_that_of_the_get(second_day: SecondDay) -> None:
    stage = second_day.stage
    file = stage.files.file(HEAD_DIFFERS).stat()
    proper = f'"{int(file.st_mtime):x}-{file.st_size:x}"'
    assert [etag for _, _, etag in versions(stage.project, HEAD_DIFFERS)] == [proper]


def test_no_condition_is_sent_where_head_is_answered(second_day: SecondDay) -> None:
    sent = [request for path in RULES for request in asked(second_day.stage.site, path)]
    assert [
        request for request in sent if {"If-None-Match", "If-Modified-Since"} & set(request.headers)
    ] == []
