"""Hosts whose times prove nothing: auto asks every tile there, and says why."""

from __future__ import annotations

from hashlib import sha1
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.pruned_stage import DAYS, HOUR, NOON, Stage, Walked, drawn_site, the_walk
from tests.servers import rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aiohttp import web

    from tests.end_to_end.project import Project
    from tests.servers.misbehaving import Exchange, Misbehaving, Rule


@pytest.fixture
def stage(project: Project, tmp_path: Path, misbehaving: Callable[[Path], Misbehaving]) -> Stage:
    files = drawn_site(tmp_path / "site")
    stage = Stage(files, misbehaving(files.folder), project)
    stage.describe(audit=0)
    return stage


def content_etags(*, dated: bool) -> Rule:
    """ETags made of the bytes, as hosts have them that keep files by their content."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        etag = f'"{sha1(exchange.proper.body).hexdigest()}"'
        return await rules.headers(ETag=etag, **({} if dated else {"Last_Modified": None}))(exchange)

    return answer


def test_a_host_with_etags_of_the_content_and_no_times_is_asked_for_every_tile(
    stage: Stage,
) -> None:
    stage.server.rule_for_all = content_etags(dated=False)
    stage.harvest(DAYS[0])
    stage.files.draw("120", NOON + 100 * HOUR)
    paths = stage.files.rendering.paths()
    reason = f"the site does not say when {len(paths)} tiles changed"
    assert the_walk(stage.harvest(DAYS[1])) == Walked(False, reason)
    assert {path for _, path in stage.asked} >= {path.replace("/", "") for path in paths}
    assert stage.is_up_to_date


def test_a_clock_that_is_put_back_after_the_proof_hides_no_change(stage: Stage) -> None:
    """Times are compared as they are written: an earlier one is another one."""
    stage.harvest(DAYS[0])
    for path in ("013", "01", "0"):
        stage.files.draw_alone(path, NOON - HOUR)
    assert the_walk(stage.harvest(DAYS[1])).is_pruned
    assert stage.is_up_to_date
    # The first full harvest sees that its times are in disorder.
    assert the_walk(stage.harvest(DAYS[7])).reason == f"the last full walk was on {DAYS[0]}"
    assert "changed after that one" in the_walk(stage.harvest(DAYS[8])).reason
