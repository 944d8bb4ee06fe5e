"""Hosts whose times prove nothing: auto asks every tile there, and says why."""

from __future__ import annotations

from hashlib import sha1
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.bad_input.small_site import drawn
from tests.end_to_end.pruned_stage import DAYS, HOUR, NOON, Stage, Walked, drawn_site, latest, the_walk
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


@pytest.mark.parametrize(
    "keys", [{"zooms": [0, 0]}, {"check": "conditional"}, {}], ids=["zooms above are not kept", "304", "all"]
)
def test_a_removal_that_leaves_the_times_above_as_they_are_is_found_where_only_times_are_told(
    stage: Stage, keys: dict[str, object]
) -> None:
    """As Overviewer gives a tile the time of its newest child, which is still there."""
    stage.describe(audit=0, **keys)
    stage.server.rule_for_all = rules.without_etag()
    stage.harvest(DAYS[0])
    stage.files.remove_alone("000")
    for above in ("00", "0"):
        time = int(stage.files.file(above).stat().st_mtime)
        stage.files.file(above).write_bytes(drawn(f"{above} anew", pixels=20))
        stage.files.redate(above, time)
    assert the_walk(stage.harvest(DAYS[1])).is_pruned
    present = {tile for tile in latest(stage.project) if tile.zoom == 0}
    assert present == {tile for tile in stage.files.rendering.images() if tile.zoom == 0}


def test_a_parent_that_looks_as_before_leads_to_what_changed_below_it_by_its_time(stage: Stage) -> None:
    """Its ETag is that of its bytes, which are the same."""
    stage.server.rule_for_all = content_etags(dated=True)
    stage.harvest(DAYS[0])
    stage.files.draw_alone("022", NOON + 100 * HOUR)
    for above in ("02", "0"):
        stage.files.redate(above, NOON + 100 * HOUR)
    assert the_walk(stage.harvest(DAYS[1])).is_pruned
    assert stage.is_up_to_date
    assert "300" not in {path for _, path in stage.asked}
