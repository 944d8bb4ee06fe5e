"""Pruned harvests of a drawn site: layers of their own, and several harvests on a day."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.end_to_end.pruned_stage import DAYS, HOUR, NOON, DrawnSite, counts, drawn_site, latest, walked
from tests.end_to_end.rendering import read_config, write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.servers.nginx import Nginx

NIGHT = "world-night"
NEW = NOON + 100 * HOUR


def test_each_layer_is_walked_as_its_own_proof_says_also_twice_on_a_day(
    project: Project, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    """That of the night was uploaded at once; both have tiles of the same names."""
    files = drawn_site(tmp_path / "site")
    shutil.copytree(files.folder / files.layer, files.folder / NIGHT)
    night = DrawnSite(files.folder, layer=NIGHT)
    for path in night.rendering.paths():
        night.redate(path.replace("/", ""), NOON)
    config = read_config(files.folder)
    (tileset,) = config["tilesets"]
    config["tilesets"].append(tileset | {"path": NIGHT, "name": NIGHT})
    write_config(files.folder, config)
    server = nginx(files.folder)
    project.add_map("small", server.url, audit=0)
    project.crawl("small", DAYS[0])
    for minute, more in enumerate([(), ("-a", "segment=run")]):
        files.draw("120", NEW + 60 * minute)
        night.draw("300", NEW + 60 * minute)
        server.clear_log()
        ways = walked(project.crawl("small", DAYS[1], *more).stderr)
        # What the night got in between is hours younger, which proves it, too.
        assert (ways[files.layer].is_pruned, ways[NIGHT].is_pruned) == (True, minute == 1)
        asked = {line.path for line in server.log()}
        assert (night.address("000") in asked) is (minute == 0)
        assert files.address("000") not in asked
        assert latest(project) == files.rendering.images() | night.rendering.images()
    assert counts(project)["rep"] == 6
