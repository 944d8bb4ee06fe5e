"""`scrapy plan`: compared with the files of a real map, and with what harvests of it cost afterwards."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import ANTWORLD, ANTWORLD_DEPTH
from tests.end_to_end.rendering import Rendering
from tests.servers.nginx import Nginx, nginx
from tests.servers.published import published

PART: Final = {
    "zooms": [-2, 0],
    "zones": [{"center": [80, 22], "width": 10, "height": 4, "zoom": 0}],
}
"""Of antworld: some twenty tiles."""
LOOKED_AT: Final = ["/robots.txt", "/overviewerConfig.js"]
"""Before the first question about a tile."""


@pytest.fixture(scope="module")
def site(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Rendering:
    """The newest version of a real map."""
    folder = published(shared_maps, ANTWORLD, 4, tmp_path_factory.mktemp("site"))
    return Rendering(folder, ANTWORLD_DEPTH)


@pytest.fixture(scope="module")
def server(site: Rendering) -> Iterator[Nginx]:
    with nginx(site.folder) as running:
        yield running


def planned(project: Project, name: str, *more: str) -> dict[str, Any]:
    return dict(json.loads(project.scrapy("plan", name, "--json", *more).stdout))


def test_a_sample_says_about_how_much_is_there(project: Project, site: Rendering, server: Nginx) -> None:
    project.add_map(ANTWORLD, server.url, change_index=False)
    server.clear_log()
    plan = planned(project, ANTWORLD)
    log = list(server.log())
    images = [len(image) for image in site.images().values()]
    truth = {
        "tiles": len(images),
        "requests": len(images) + len(site.missing()) + len(LOOKED_AT),
        "received_bytes": sum(images),
    }
    for name, value in truth.items():
        assert plan["least"][name] <= value <= plan["most"][name]
    assert plan["asked"] == len(log) <= 200 + len(LOOKED_AT)
    assert [line.path for line in log if line.method != "HEAD"] == LOOKED_AT
    assert len({line.path for line in log}) == len(log)
    assert not project.data.exists()


def test_a_small_map_is_counted_to_the_request_and_later_plans_are_the_last_harvest(
    project: Project, server: Nginx
) -> None:
    project.add_map(ANTWORLD, server.url, walk="full", budget={"requests": 100}, **PART)
    sampled = planned(project, ANTWORLD)
    report = project.harvest(ANTWORLD, "2021-05-12")
    assert sampled["exact"]
    assert sampled["expected"]["requests"] == report["requests"]
    assert sampled["expected"]["tiles"] == report["counts"]["add"]
    server.clear_log()
    again = planned(project, ANTWORLD)
    assert list(server.log()) == []
    assert (again["day"], again["walk"]) == ("2021-05-12", "full")
    assert again["expected"]["requests"] == report["requests"]
    shown = project.scrapy("plan", ANTWORLD, "--why").stdout
    assert "next walk: full, every tile is asked\nwhy: walk = full is set\n" in shown


def test_a_canvas_that_takes_days_is_planned_with_a_region_that_takes_less(
    project: Project, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    (tmp_path / "canvas").mkdir()
    url, size = f"{nginx(tmp_path / 'canvas').url}/{{x}}/{{y}}.png", {"tiles": [2048, 2048], "tile": 1000}
    project.add_map("canvas", url, canvas=size, requests_per_second=40)
    shown = project.scrapy("plan", "canvas").stdout
    # Of 200 empty places, three might have had a tile.
    assert re.search(r"^tiles +0 +0 +63,000$", shown, re.MULTILINE)
    assert re.search(r"^requests +4,200,000 +4,200,000 +4,200,000$", shown, re.MULTILINE)
    assert "that takes days; a region takes less: write zones into maps.toml\n" in shown


def test_in_quiet_hours_nothing_is_planned(project: Project, server: Nginx) -> None:
    project.add_map(ANTWORLD, server.url)
    server.clear_log()
    now, hours = datetime.now(UTC), timedelta(hours=6)
    quiet = f"QUIET_HOURS={now - hours:%H:%M}-{now + hours:%H:%M}"
    done = project.scrapy("plan", ANTWORLD, "-s", quiet, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "quiet" in line
    assert list(server.log()) == []
    assert not project.data.exists()
