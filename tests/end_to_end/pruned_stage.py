"""What the tests of pruned walks share: a site that can be drawn lawfully or not, and what harvests say."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.end_to_end.bad_input.small_site import drawn
from tests.end_to_end.project import LayerTile, Project
from tests.end_to_end.rendering import Rendering
from tests.servers.misbehaving import Misbehaving

RARELY: Final = 100_000
"""Days from one full harvest to the next, for versions of a map that lie months apart."""
NOON: Final = 1_714_500_000
"""When a drawn site was begun, in seconds since 1970."""
HOUR: Final = 3600
LAYER: Final = "world-day"
LEAVES: Final = ("000", "001", "013", "022", "120", "300", "311")
DAYS: Final = tuple(f"2024-05-{day:02}" for day in range(1, 30))

_WAYS: Final = {
    "every tile is asked": False,
    "what lies below unchanged tiles is skipped": True,
    "what its change index does not list is skipped": True,
}
_DECIDED: Final = re.compile(rf"INFO: layer (\S+): ({'|'.join(_WAYS)}): (.*)")


class Walked(NamedTuple):
    """How a harvest says that it walks a layer."""

    is_pruned: bool
    reason: str


def walked(log: str) -> dict[str, Walked]:
    """By layer, from what a crawl has written."""
    return {layer: Walked(_WAYS[way], reason) for layer, way, reason in _DECIDED.findall(log)}


def the_walk(log: str) -> Walked:
    """Of a map with one layer."""
    (found,) = walked(log).values()
    return found


def latest(project: Project) -> dict[LayerTile, bytes]:
    """The tiles that the history takes for present, with their bytes."""
    stored, found = project.stored(), {}
    for version in sorted(project.versions(), key=lambda version: version.day):
        if version.sha1 is None:
            found.pop(version.tile, None)
        else:
            found[version.tile] = stored[f"{version.sha1[:2]}/{version.sha1}.{version.extension}"]
    return found


def counts(project: Project) -> dict[str, int]:
    """Of the last harvest: tiles by outcome."""
    rows = project.query(
        "SELECT outcome, sum(tiles) FROM harvest_counts"
        " WHERE harvest = (SELECT max(id) FROM harvests) GROUP BY outcome"
    )
    return {outcome: int(tiles) for outcome, tiles in rows}


def twin(project: Project, url: str, name: str, folder: Path, **keys: Any) -> Project:
    """A project with a copy of the same data, and the same map with other keys."""
    folder.mkdir()
    other = Project(folder)
    other.adopt(project.data)
    other.add_map(name, url, **keys)
    return other


@dataclass(frozen=True, slots=True)
class DrawnSite(Rendering):
    """A layer that tests draw. Leaves are named by their digits, such as `012`; a tile above another is named
    by its beginning."""

    depth: int = 3
    layer: str = LAYER
    _drawings: Iterator[int] = field(default_factory=count)

    def configure(self, **more: Any) -> None:
        """Writes the configuration, with more about the layer such as its `last_rendertime`.

        Each one has a time of its own. Servers make validators of time and size, so that two files written
        within a second would be one for them.
        """
        tileset = {"path": LAYER, "zoomLevels": self.depth, "imgextension": "png", "isOverlay": False}
        tileset |= more
        text = f"var overviewerConfig = {json.dumps({'CONST': {'tileSize': 48}, 'tilesets': [tileset]})};\n"
        self.folder.mkdir(parents=True, exist_ok=True)
        file, seconds = self.folder / "overviewerConfig.js", NOON + next(self._drawings)
        file.write_text(text, encoding="utf-8")
        os.utime(file, (seconds, seconds))

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


def drawn_site(folder: Path) -> DrawnSite:
    """A site whose leaves were drawn five hours apart: its times tell that it keeps the law."""
    site = DrawnSite(folder)
    site.configure()
    for number, leaf in enumerate(LEAVES):
        site.draw(leaf, NOON + number * 5 * HOUR)
    return site


@dataclass(frozen=True, slots=True)
class Stage:
    """A drawn site that is harvested day by day as the map `small`."""

    files: DrawnSite
    server: Misbehaving
    project: Project

    def describe(self, **keys: Any) -> None:
        self.project.maps_file.unlink(missing_ok=True)
        self.project.add_map("small", f"{self.server.url}/", **keys)

    def harvest(self, day: str, *more: str) -> str:
        """Returns its log."""
        return self.project.crawl("small", day, "-s", "RETRY_PAUSE=0.02", *more, check=False).stderr

    @property
    def is_up_to_date(self) -> bool:
        """Whether the history has what the site has, tile by tile, and nothing else."""
        return latest(self.project) == self.files.images()
