"""Steps of a drawn site, harvested pruned and in full: the same history."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.pruned_stage import DAYS, HOUR, NOON, DrawnSite, counts, drawn_site, twin, walked
from tests.end_to_end.rendering import read_config, write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.nginx import LogLine, Nginx

AGAIN = ("-a", "segment=run")
NIGHT = "world-night"
NEW = NOON + 100 * HOUR


class Both:
    """A project that walks pruned, and one that walks in full, after the same first harvest of a site."""

    def __init__(self, folder: Path, server: Nginx, **keys: Any) -> None:
        (folder / "pruned").mkdir()
        self.server = server
        self.pruned = Project(folder / "pruned")
        self.pruned.add_map("small", server.url, **{"audit": 0} | keys)
        self.pruned.crawl("small", DAYS[0])
        self.full = twin(self.pruned, server.url, "small", folder / "full", **keys | {"walk": "full"})

    def harvest(self, day: str, *more: str) -> str:
        """By both, and assert that they agree. The log of the pruned one, whose requests are the server's."""
        self.full.crawl("small", day, *more)
        self.server.clear_log()
        log = self.pruned.crawl("small", day, *more).stderr
        assert self.pruned.versions() == self.full.versions()
        assert self.pruned.stored() == self.full.stored()
        return log

    @property
    def asked(self) -> list[LogLine]:
        return [line for line in self.server.log() if line.path.endswith(".png")]


@pytest.fixture
def files(tmp_path: Path) -> DrawnSite:
    return drawn_site(tmp_path / "site")


def test_what_changes_again_on_the_same_day_replaces_the_days_version(
    files: DrawnSite, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    both = Both(tmp_path, nginx(files.folder))
    files.draw("120", NEW)
    both.harvest(DAYS[1])
    files.draw("120", NEW + 60)
    log = both.harvest(DAYS[1], *AGAIN)
    assert walked(log)[files.layer].is_pruned
    assert counts(both.pruned)["rep"] == 3
    assert "300" not in {line.path for line in both.asked}
    both.harvest(DAYS[1], *AGAIN)
    assert len(both.asked) == 4


def test_lawful_removals_are_found_and_so_is_what_comes_back(
    files: DrawnSite, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    """It comes back with the bytes and the time that it had; only what lies above it is new."""
    both = Both(tmp_path, nginx(files.folder))
    kept = shutil.copy2(files.file("000"), tmp_path / "kept.png")
    files.remove_alone("000")
    files.draw("001", NEW)
    assert walked(both.harvest(DAYS[1]))[files.layer].is_pruned
    assert counts(both.pruned)["gone"] == 1
    shutil.copy2(kept, files.file("000"))
    files.draw("001", NEW + 60)
    both.harvest(DAYS[2])
    assert counts(both.pruned)["add"] == 1


def test_each_layer_is_walked_as_its_own_proof_says(
    files: DrawnSite, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    """The one of the night was uploaded at once; both have tiles of the same names."""
    shutil.copytree(files.folder / files.layer, files.folder / NIGHT)
    night = DrawnSite(files.folder, layer=NIGHT)
    for path in night.rendering.paths():
        night.redate(path.replace("/", ""), NOON)
    add_layer(files.folder, NIGHT)
    both = Both(tmp_path, nginx(files.folder))
    files.draw("120", NEW)
    night.draw("300", NEW)
    ways = walked(both.harvest(DAYS[1]))
    assert (ways[files.layer].is_pruned, ways[NIGHT].is_pruned) == (True, False)
    asked = {line.path for line in both.asked}
    assert night.address("000") in asked
    assert files.address("000") not in asked


def add_layer(folder: Path, name: str) -> None:
    config = read_config(folder)
    (tileset,) = config["tilesets"]
    config["tilesets"].append(tileset | {"path": name, "name": name})
    write_config(folder, config)
