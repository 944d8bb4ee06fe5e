"""How a first harvest asks for tiles: by GET at once, or by HEAD before. As nginx has seen it."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import SMALL, SMALL_DEPTH
from tests.end_to_end.rendering import Rendering
from tests.servers.nginx import Nginx
from tests.servers.published import published


@pytest.fixture
def site(shared_maps: Path, tmp_path: Path, nginx: Callable[..., Nginx]) -> tuple[Rendering, Nginx]:
    folder = published(shared_maps, "alexjj", 1, tmp_path / "site")
    return Rendering(folder, SMALL_DEPTH), nginx(folder)


def asked(server: Nginx) -> Counter[tuple[str, int]]:
    """The methods and answers of requests for tiles."""
    return Counter((line.method, line.status) for line in server.log() if line.path.endswith(".png"))


@pytest.mark.parametrize("keys", [{}, {"check": "conditional"}], ids=["head", "conditional"])
def test_every_tile_is_asked_once_and_what_is_known_later_on(
    project: Project, site: tuple[Rendering, Nginx], keys: dict[str, Any]
) -> None:
    rendering, server = site
    project.add_map(SMALL, server.url, walk="full", **keys)
    plan = project.scrapy("plan", SMALL, "--json")
    there, missing = len(rendering.images()), len(rendering.missing_tiles())
    server.clear_log()
    project.crawl(SMALL, "2016-10-06")
    assert asked(server) == {("GET", 200): there, ("GET", 404): missing}
    (harvest,) = project.harvests(SMALL)
    assert harvest["counts"] == {"404": missing, "add": there}
    assert f'"requests": {harvest["requests"]}' in plan.stdout
    server.clear_log()
    project.crawl(SMALL, "2016-10-07")
    known = {("GET", 304): there} if "check" in keys else {("HEAD", 200): there}
    assert asked(server) == {**known, ("HEAD", 404): missing}
