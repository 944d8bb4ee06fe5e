"""What a quiet day costs by a change index, and what follows if an index or unchanged tiles are wrong."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.bad_input.small_site import drawn
from tests.end_to_end.project import Project
from tests.end_to_end.pruned_stage import counts, latest, the_walk, walked
from tests.end_to_end.rendering import Rendering
from tests.servers.misbehaving import Misbehaving
from tests.servers.nginx import LogLine, nginx
from tests.servers.published import published

NOON: Final = 1_714_500_000
"""When a drawn site was begun, in seconds since 1970."""
HOUR: Final = 3600
LAYER: Final = "world-day"
LEAVES: Final = ("000", "001", "013", "022", "120", "300", "311")
DAYS: Final = tuple(f"2024-05-{day:02}" for day in range(1, 30))

BY_INDEX: Final = "what its change index does not list is skipped"
NOTHING_CHANGED: Final = "its change index says that nothing has changed since"


def split(log: list[LogLine]) -> tuple[list[LogLine], list[LogLine]]:
    """The files of the site, and its tiles."""
    tiles = [line for line in log if line.path.endswith(".png")]
    return [line for line in log if line not in tiles], tiles


@pytest.mark.parametrize(
    ("name", "renderer", "version", "files"),
    [
        # robots.txt and config.js
        ("jgore43", "mapcrafter", 1, 2),
        # robots.txt, and a file of regions for each quarter of the world. Both settings.json are left out.
        ("labyrinthmc", "bluemap", 5, 5),
    ],
)
def test_a_quiet_day_of_any_map_with_an_index_costs_its_files_and_the_audit(
    name: str, renderer: str, version: int, files: int, project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    keys = {"layers": ["world"]} if renderer == "bluemap" else {}
    with nginx(published(shared_maps, name, version, tmp_path / "site")) as server:
        project.add_map(name, server.url, renderer=renderer, **keys)
        project.crawl(name, DAYS[0], spider=renderer)
        before = latest(project)
        server.clear_log()
        log = project.crawl(name, DAYS[1], spider=renderer).stderr
        asked, tiles = split(list(server.log()))
    assert len(asked) == files
    assert {line.status for line in asked} <= {304, 404}
    assert len(tiles) <= 0.02 * (2 * len(before) + 300) + 3
    assert all(NOTHING_CHANGED in walk.reason for walk in walked(log).values())
    assert latest(project) == before
    assert counts(project)["skip"] >= len(before) - len(tiles)


@dataclass(frozen=True, slots=True)
class DrawnSite(Rendering):
    """A layer that tests draw. Leaves are named by their digits, such as `012`; a tile above another is named
    by its beginning."""

    depth: int = 3
    layer: str = LAYER
    _drawings: Iterator[int] = field(default_factory=count)

    def draw(self, leaf: str, seconds: int) -> None:
        """As Overviewer does: the leaf, and all above it anew, each with the time of its newest child."""
        self.draw_alone(leaf, seconds)
        self._draw_above(leaf)

    def draw_alone(self, path: str, seconds: int) -> None:
        """Against the law: nothing above it is touched."""
        self.replace(path, drawn(f"{LAYER} {next(self._drawings)}"), seconds)

    def _draw_above(self, leaf: str) -> None:
        for length in range(len(leaf) - 1, 0, -1):
            above = leaf[:length]
            children = [self.file(above + digit) for digit in "0123"]
            newest = max(int(child.stat().st_mtime) for child in children if child.exists())
            self.draw_alone(above, newest)


def drawn_site(folder: Path, **more: int) -> DrawnSite:
    """A site whose leaves were drawn five hours apart: its times tell that it keeps the law. What its
    configuration says of the layer may be `more`."""
    site = DrawnSite(folder)
    folder.mkdir()
    tileset = {"path": LAYER, "zoomLevels": site.depth, "imgextension": "png", "isOverlay": False, **more}
    said = {"CONST": {"tileSize": 48}, "tilesets": [tileset]}
    configuration = f"var overviewerConfig = {json.dumps(said)};\n"
    (folder / "overviewerConfig.js").write_text(configuration, encoding="utf-8")
    for number, leaf in enumerate(LEAVES):
        site.draw(leaf, NOON + number * 5 * HOUR)
    return site


@pytest.mark.parametrize("has_index", [True, False])
def test_a_change_in_what_was_skipped_is_found_and_the_same_harvest_asks_everything(
    project: Project, tmp_path: Path, misbehaving: Callable[[Path], Misbehaving], has_index: bool
) -> None:
    """One in each of two branches, and one where no tile was: the audit need not meet them all."""
    files = drawn_site(tmp_path / "site", **({"last_rendertime": NOON} if has_index else {}))
    project.add_map("small", f"{misbehaving(files.folder).url}/", audit=1)

    def harvest(day: str) -> str:
        """Returns the log. Afterwards the history has what the site has, and nothing else."""
        log = project.crawl("small", day).stderr
        assert latest(project) == files.images()
        return log

    harvest(DAYS[0])
    for leaf in ("120", "300", "302"):
        if has_index:
            files.draw(leaf, NOON + 100 * HOUR)
        else:
            # Among these times a change does not show.
            files.draw_alone(leaf, NOON - HOUR)
    log = harvest(DAYS[1])
    assert the_walk(log).is_pruned
    assert (BY_INDEX in log) is has_index
    wrong = "and its change index did not tell" if has_index else "below one that had not"
    (warning,) = [line for line in log.splitlines() if "] WARNING: layer" in line]
    assert f"had changed {wrong}" in warning
    assert "all of it is asked now" in warning
    assert project.harvests("small")[-1]["walk"] == "repaired"
    # Then all is asked, although nothing else may have changed.
    following = the_walk(harvest(DAYS[2]))
    assert not following.is_pruned
    assert wrong in following.reason
