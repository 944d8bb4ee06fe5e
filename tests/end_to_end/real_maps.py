"""Real maps, harvested on the days of their publishing: where other tests go on from."""

from __future__ import annotations

import fcntl
import json
import pickle
import shutil
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from tests.end_to_end.project import LayerTile, Project, RecordedVersion
from tests.end_to_end.rendering import LAYER, Rendering
from tests.servers.nginx import LogLine, nginx
from tests.servers.published import Step, published, truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

ANTWORLD: Final = "antworld"
ANTWORLD_DEPTH: Final = 7

SMALL: Final = "small"
"""The name here of the first version of alexjj: 29 tiles."""
SMALL_DEPTH: Final = 5
SMALL_DAY: Final = "2016-10-06"


Made = TypeVar("Made")


class DrawnMap(Protocol):
    """A shared map, whatever has drawn it. It can be hashed."""

    @property
    def name(self) -> str: ...

    @property
    def renderer(self) -> str: ...

    @property
    def versions(self) -> range | None:
        """Those that are harvested in turn. None: all."""
        ...

    @property
    def keys(self) -> Mapping[str, Any]:
        """What its entry in maps.toml has beside the address."""
        ...

    def rendering(self, site: Path) -> Any:
        """Returns what the folder holds: a `Rendering`, or what has its methods for tiles."""


@dataclass(frozen=True, slots=True)
class Harvested:
    """A version of the map, and what its harvest left behind."""

    version: int
    day: str
    step: Step | None
    """What changed since the version before; None for the first."""
    rendering: Rendering
    """The published folder; the next version has taken its place since."""
    images: dict[LayerTile, bytes]
    """What was published."""
    missing: set[LayerTile]
    """What was not, though its parent was."""
    outcomes: dict[LayerTile, str]
    log: list[LogLine]
    """What nginx was asked."""
    data: Path
    """A copy of the data folder as it was then."""
    summary: dict[str, Any]
    """What `scrapy harvests --json` says when all have been."""
    versions: set[RecordedVersion]
    stored: dict[str, bytes]

    @property
    def expected(self) -> dict[LayerTile, str]:
        """The outcomes, from the map's own record alone."""
        expected = dict.fromkeys(self.missing, "404")
        if self.step is None:
            return expected | dict.fromkeys(self.images, "add")
        tiles = self.rendering.tiles_of_files
        expected |= dict.fromkeys(self.unchanged, "ign")
        expected |= dict.fromkeys(tiles(self.step.added), "add")
        expected |= dict.fromkeys(tiles(self.step.changed), "upd")
        return expected | dict.fromkeys(tiles(self.step.redated), "nMod")

    @property
    def question(self) -> str:
        """The method by which its tiles were asked: GET while none was known, and HEAD later."""
        return "GET" if self.step is None else "HEAD"

    @property
    def unchanged(self) -> set[LayerTile]:
        """Those that were published before just so, times included."""
        if self.step is None:
            return set()
        touched = self.step.added | self.step.changed | self.step.redated
        return self.images.keys() - self.rendering.tiles_of_files(touched)


def as_of(versions: set[RecordedVersion], day: str) -> dict[LayerTile, str]:
    """The history's answer for a day: of each tile the sha1 of its latest version until then."""
    found: dict[LayerTile, str] = {}
    for version in sorted(versions, key=lambda version: version.day):
        if version.day <= day and version.sha1 is not None:
            found[version.tile] = version.sha1
    return found


def days(shared_maps: Path, name: str) -> list[str]:
    """The day of each version, the first included. A second one of a day is taken for the next day's."""
    versions = json.loads((shared_maps / name / "versions.json").read_text(encoding="utf-8"))["versions"]
    found: list[str] = []
    for version in versions:
        day = version["day"]
        if found and day <= found[-1]:
            day = (date.fromisoformat(found[-1]) + timedelta(days=1)).isoformat()
        found.append(day)
    return found


def harvested_antworld(shared_maps: Path, below: Path) -> list[Harvested]:
    return harvested_versions(shared_maps, below, ANTWORLD_MAP)


@cache
def harvested_small(shared_maps: Path, below: Path) -> Path:
    """The data folder after the harvest of the small map on its day, as `harvested_versions`."""

    def harvest(folder: Path) -> Path:
        project = Project(folder)
        with nginx(published(shared_maps, "alexjj", 1, folder / "site")) as server:
            project.add_map(SMALL, server.url)
            project.crawl(SMALL, SMALL_DAY)
        return project.data

    return made_once(below / SMALL, harvest)


@dataclass(frozen=True, slots=True)
class QuadtreeMap:
    """A shared map of one layer that is a quadtree."""

    name: str
    renderer: str
    layer: str
    depth: int
    first_digit: int = 0
    versions: None = None
    walk: str = "auto"

    @property
    def keys(self) -> Mapping[str, Any]:
        return {"walk": self.walk}

    def rendering(self, site: Path) -> Rendering:
        return Rendering(site, self.depth, self.layer, self.first_digit)


ANTWORLD_MAP: Final = QuadtreeMap(ANTWORLD, "overviewer", LAYER, ANTWORLD_DEPTH)
MAPCRAFTERS: Final = (
    QuadtreeMap("jgore43", "mapcrafter", "map_myworld_topdown_day/tl", 6, first_digit=1, walk="full"),
    QuadtreeMap("richhall", "mapcrafter", "map_backs_DSM/tl", 8, first_digit=1),
)


@cache
def harvested_versions(shared_maps: Path, below: Path, drawn: DrawnMap) -> list[Harvested]:
    """Its versions in turn, in a folder below `below`; once, however many processes and tests ask."""

    def harvest(folder: Path) -> list[Harvested]:
        harvested = list(_harvest_in_turn(shared_maps, folder, drawn))
        summaries = Project(folder).harvests(drawn.name)
        return [replace(one, summary=summary) for one, summary in zip(harvested, summaries, strict=True)]

    first = "" if drawn.versions is None else f"-{drawn.versions[0]}"
    return made_once(below / f"{drawn.name}{first}", harvest)


def made_once(folder: Path, make: Callable[[Path], Made]) -> Made:
    """What `make` returns of the folder, which is new and empty: in the process that comes first.

    The others wait for it, and read what it has made.
    """
    kept = folder.with_suffix(".pickle")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            kept.write_bytes(pickle.dumps(make(folder)))
        made: Made = pickle.loads(kept.read_bytes())
        return made


def _harvest_in_turn(shared_maps: Path, folder: Path, drawn: DrawnMap) -> Iterator[Harvested]:
    """Publish each version and harvest it with `scrapy crawl`; summaries come later."""
    site = folder / "site"
    project = Project(folder)
    known = list(zip(days(shared_maps, drawn.name), [None, *truth(shared_maps, drawn.name)], strict=True))
    versions = drawn.versions or range(1, len(known) + 1)
    published(shared_maps, drawn.name, versions[0], site)
    rendering = drawn.rendering(site)
    with nginx(site) as server:
        project.add_map(drawn.name, server.url, **drawn.keys)
        for version in versions:
            day, happened = known[version - 1]
            step = None if version == versions[0] else happened
            published(shared_maps, drawn.name, version, site)
            server.clear_log()
            project.crawl(drawn.name, day, spider=drawn.renderer)
            log = list(server.log())
            data = folder / f"data-{version}"
            shutil.copytree(project.data, data)
            yield Harvested(
                version=version,
                day=day,
                step=step,
                rendering=rendering,
                images=rendering.images(),
                missing=rendering.missing_tiles(),
                outcomes=project.outcomes(),
                log=log,
                data=data,
                summary={},
                versions=project.versions(),
                stored=project.stored(),
            )
