"""A map of a renderer of another package: the guide's example, installed as pip installs it."""

import json
import os
from pathlib import Path

from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import Project
from tests.servers.minedmap import install, published_as_minedmap
from tests.servers.nginx import nginx


def test_its_map_is_added_and_harvested_as_any_other_map(
    project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    packages = f"{ROOT}{os.pathsep}{install(tmp_path / 'packages')}"

    def scrapy(*words: str) -> str:
        done = project.scrapy_from_nothing(*words, PYTHONPATH=packages)
        assert done.returncode == 0, done.stderr
        return f"{done.stdout}{done.stderr}"

    site = published_as_minedmap(shared_maps, "duckmap", 6, tmp_path / "site")
    with nginx(site) as server:
        assert "a map of MinedMap" in scrapy("add", "mine", server.url)
        said = scrapy("crawl", "minedmap", "-a", "map=mine", "-a", "day=2025-05-15")
        # The site names its tiles: nothing is asked that is not there.
        assert not [line for line in server.log() if line.status == 404 and line.path.endswith(".png")]
    assert "it leaves the time of a parent whose bytes stay as it was" in said
    images = {file.read_bytes() for file in site.glob("data/map/*/r.*.png")}
    assert set(project.stored().values()) == images
    (summary,) = json.loads(project.scrapy("harvests", "mine", "--json").stdout)
    assert (summary["renderer"], summary["walk"]) == ("minedmap", "full")
