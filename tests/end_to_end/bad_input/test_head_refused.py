"""Servers that refuse HEAD: a GET with a condition takes its place."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    SECOND_DAY,
    Stage,
    publish,
    visit,
)
from tests.end_to_end.project import Project
from tests.servers import rules
from tests.servers.nginx import HEAD_REFUSED, Nginx


def test_nginx_that_refuses_head_is_asked_for_what_changed_by_get(
    tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    files = publish(tmp_path / "site")
    server = nginx(files.folder, location=HEAD_REFUSED)
    project = Project(tmp_path)
    project.add_map("small", f"{server.url}/")
    assert visit(project, FIRST_DAY).counts == {"add": 20}
    server.clear_log()
    files.write("00", b"\xff\xd8 no image")
    files.write("01", files.file("02").read_bytes())
    assert visit(project, SECOND_DAY).counts == {"ign": 18, "upd": 1, "fail": 1}
    tiles = [line for line in server.log() if line.path.startswith(f"/{LAYER}/")]
    assert [line.status for line in tiles if line.method == "HEAD"] == [405]
    assert sorted(line.status for line in tiles if line.method == "GET") == [200] * 2 + [304] * 18


def test_a_tile_that_is_asked_by_get_instead_costs_the_budget_one_request(stage: Stage) -> None:
    """23 requests are robots.txt, the configuration, one HEAD that is refused, and 20 tiles."""
    stage.project.maps_file.unlink()
    stage.project.add_map("small", f"{stage.site.url}/", concurrency=1, first="head", budget={"requests": 23})
    stage.site.rule_for_all = rules.only("HEAD", rules.status(405))
    assert visit(stage.project, FIRST_DAY).counts == {"add": 20}
    assert len(stage.site.received) == 23


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_of_head_on_a_whole_map_is_noticed_once_per_harvest(stage: Stage, status: int) -> None:
    stage.site.rule_for_all = rules.only("HEAD", rules.status(status))
    assert visit(stage.project, FIRST_DAY).counts == {"add": 20}
    stage.site.received.clear()
    assert visit(stage.project, SECOND_DAY).counts == {"ign": 20}
    assert [request.method for request in stage.site.received].count("HEAD") == 1
    assert len(stage.site.received) == 2 + 1 + 20
