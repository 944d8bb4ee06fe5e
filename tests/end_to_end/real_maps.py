"""The shared maps, what each published folder holds, and harvests of them on their days.

A file is a tile by the addresses that the renderer says of the folder: tests/renderers compares these with
what each renderer's own page asks for. Other tests go on from these harvests.
"""

import fcntl
import json
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.end_to_end.project import LayerTile, Project, RecordedVersion
from tests.end_to_end.rendering import Rendering
from tests.renderers.sites import PAGE, PublishedSite
from tests.servers.nginx import LogLine, nginx
from tests.servers.plain_tiles import DEEPEST, WORLD, plain_path, plain_tiles
from tests.servers.published import Step, published, truth
from tileharvest.renderers.site import Site
from tileharvest.tiles.grid import Tile
from tileharvest.walk.walk import Walk

ANTWORLD: Final = "antworld"
ANTWORLD_DEPTH: Final = 7

SMALL: Final = "small"
"""The name here of the first version of alexjj: 29 tiles."""
SMALL_DAY: Final = "2016-10-06"


Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class PublishedMap:
    """A shared map of which some versions are harvested in turn."""

    name: str
    renderer: str
    versions: range | None = None
    """None means all."""
    entry: tuple[tuple[str, Any], ...] = (("walk", "full"),)
    asks_by_get: bool = False
    shared: str = ""
    """The name of the shared map, if it has another one here."""

    @property
    def keys(self) -> Mapping[str, Any]:
        return dict(self.entry)

    def publish(self, shared_maps: Path, version: int, site: Path) -> Path:
        """Makes the folder hold a version of the map, and returns it."""
        if self.renderer == "xyz":
            return plain_tiles(shared_maps, version, site)
        return published(shared_maps, self.name, version, site)

    def address(self, url: str) -> str:
        """The map's address in maps.toml, on a server."""
        return f"{url}/{{z}}/{{x}}/{{y}}.png" if self.renderer == "xyz" else url

    def rendering(self, site: Path) -> Any:
        """Returns the content of the folder."""
        return PublishedRendering(site, self) if self.renderer != "overviewer" else Rendering(site, 7)


@dataclass(frozen=True, slots=True)
class PublishedRendering:
    """A published folder, whatever is in there when it is asked."""

    folder: Path
    map: PublishedMap

    def site(self) -> Site:
        url = self.map.address(PAGE.removesuffix("/")) if self.map.renderer == "xyz" else PAGE
        return PublishedSite(self.folder).probed(self.map.renderer, **{**self.map.keys, "url": url})

    @property
    def depth(self) -> int:
        return self.site().layers[0].depth

    def named(self, names: Iterable[str]) -> dict[str, LayerTile]:
        """The tiles among names of files below the folder, or of the files of Overviewer that they were."""
        layers, found = self.site().layers, {}
        for name in names:
            url = f"{PAGE}{plain_path(name) or name.lstrip('/')}"
            for layer in layers:
                if (tile := layer.addresses.tile_of(url)) is not None:
                    found[name] = LayerTile(layer.name, tile.zoom, tile.x, tile.y)
        return found

    def tiles_of_files(self, names: Iterable[str]) -> set[LayerTile]:
        return set(self.named(names).values())

    def images(self) -> dict[LayerTile, bytes]:
        """The bytes of all tiles that are there."""
        names = [file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*.*")]
        return {tile: (self.folder / name).read_bytes() for name, tile in self.named(names).items()}

    def missing_tiles(self) -> set[LayerTile]:
        """What a walk asks for in vain: where it starts, beside the coarsest tiles, and below all others."""
        there, asked = self.images().keys(), set[LayerTile]()
        for layer in self.site().layers:
            walk = Walk(layer.pyramid)
            coming = list(walk.start())
            for tile in (Tile(one.zoom, one.x, one.y) for one in there if one.layer == layer.name):
                coming += walk.below(tile)
                coming += layer.pyramid.beside(tile) if walk.goes_sideways and tile.zoom == walk.top else ()
            asked |= {LayerTile(layer.name, tile.zoom, tile.x, tile.y) for tile in coming}
        return asked - there


ANTWORLD_MAP: Final = PublishedMap("antworld", "overviewer", entry=())
MAPCRAFTERS: Final = (PublishedMap("jgore43", "mapcrafter"), PublishedMap("richhall", "mapcrafter", entry=()))
DUCKMAP: Final = PublishedMap("duckmap", "squaremap", range(1, 3))
"""What was there before it was begun anew with version 3, in which it has no tiles yet."""
DUCKMAP_ANEW: Final = PublishedMap("duckmap", "squaremap", range(4, 7))
SBATSERVER: Final = PublishedMap("sbatserver", "pl3xmap")
LABYRINTH: Final = PublishedMap(
    "labyrinthmc", "bluemap", entry=(("walk", "full"), ("change_index", False)), asks_by_get=True
)
MROZBARRY: Final = PublishedMap("mrozbarry", "dynmap", entry=(("walk", "full"), ("robots", False)))
HELMETGREEN: Final = PublishedMap("helmetgreen", "unmined")
PLAIN_ANTS: Final = PublishedMap(
    "plain-ants",
    "xyz",
    entry=(("walk", "full"), ("bounds", WORLD), ("site_zooms", (0, DEEPEST))),
    shared="antworld",
)


@dataclass(frozen=True, slots=True)
class Harvested:
    """A version of the map, and what its harvest left behind."""

    version: int
    day: str
    step: Step | None
    """The changes since the version before; None for the first version."""
    rendering: Rendering
    """The published folder. The next version has replaced its content since."""
    images: dict[LayerTile, bytes]
    missing: set[LayerTile]
    """The tiles that were not published although their parent was."""
    outcomes: dict[LayerTile, str]
    question: str
    """The method by which its tiles were asked: GET in the first harvest, mostly HEAD later."""
    log: list[LogLine]
    data: Path
    """A copy of the data folder as it was then."""
    summary: dict[str, Any]
    """The harvest in `scrapy harvests --json`, after all versions were harvested."""
    versions: set[RecordedVersion]
    stored: dict[str, bytes]

    @property
    def expected(self) -> dict[LayerTile, str]:
        """The outcomes by the map's own record alone."""
        expected = dict.fromkeys(self.missing, "404")
        if self.step is None:
            return expected | dict.fromkeys(self.images, "add")
        tiles = self.rendering.tiles_of_files
        touched = self.step.added | self.step.changed | self.step.redated
        expected |= dict.fromkeys(self.images.keys() - tiles(touched), "ign")
        expected |= dict.fromkeys(tiles(self.step.added), "add")
        expected |= dict.fromkeys(tiles(self.step.changed), "upd")
        expected |= dict.fromkeys(tiles(self.step.removed), "gone")
        return expected | dict.fromkeys(tiles(self.step.redated), "nMod")


def as_of(versions: set[RecordedVersion], day: str) -> dict[LayerTile, str]:
    """Returns for each tile the sha1 of its latest version until that day."""
    found: dict[LayerTile, str] = {}
    for version in sorted(versions, key=lambda version: version.day):
        if version.day <= day and version.sha1 is not None:
            found[version.tile] = version.sha1
        elif version.day <= day:
            found.pop(version.tile, None)
    return found


def days(shared_maps: Path, name: str) -> list[str]:
    """Returns the day of each version, the first included. A second version of a day gets the next day."""
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
    """Returns the data folder after the harvest of the small map on `SMALL_DAY`. It is made once, like
    `harvested_versions`."""

    def harvest(folder: Path) -> Path:
        project = Project(folder)
        with nginx(published(shared_maps, "alexjj", 1, folder / "site")) as server:
            project.add_map(SMALL, server.url)
            project.crawl(SMALL, SMALL_DAY)
        return project.data

    return made_once(below / SMALL, harvest)


@cache
def harvested_versions(shared_maps: Path, below: Path, drawn: PublishedMap) -> list[Harvested]:
    """Harvests the versions in turn in a folder below `below`, once for all processes and tests that ask."""

    def harvest(folder: Path) -> list[Harvested]:
        harvested = list(_harvest_in_turn(shared_maps, folder, drawn))
        summaries = Project(folder).harvests(drawn.name)
        return [replace(one, summary=summary) for one, summary in zip(harvested, summaries, strict=True)]

    first = "" if drawn.versions is None else f"-{drawn.versions[0]}"
    return made_once(below / f"{drawn.name}{first}", harvest)


def made_once(folder: Path, make: Callable[[Path], Made]) -> Made:
    """Returns the result of `make` for the folder, which is new and empty.

    The process that comes first calls `make`. The others wait for it, and read its result.
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


def _harvest_in_turn(shared_maps: Path, folder: Path, drawn: PublishedMap) -> Iterator[Harvested]:
    """Publishes each version and harvests it with `scrapy crawl`. The summaries are added later."""
    site = folder / "site"
    project, name = Project(folder), drawn.shared or drawn.name
    known = list(zip(days(shared_maps, name), [None, *truth(shared_maps, name)], strict=True))
    versions = drawn.versions or range(1, len(known) + 1)
    drawn.publish(shared_maps, versions[0], site)
    rendering = drawn.rendering(site)
    with nginx(site) as server:
        project.add_map(drawn.name, drawn.address(server.url), **drawn.keys)
        for version in versions:
            day, happened = known[version - 1]
            step = None if version == versions[0] else happened
            drawn.publish(shared_maps, version, site)
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
                question="GET" if step is None or drawn.asks_by_get else "HEAD",
                log=log,
                data=data,
                summary={},
                versions=project.versions(),
                stored=project.stored(),
            )


URL: Final = "https://map.example.net/world/"
"""Nobody is there: where git is asked, the site is asked nothing."""


def rows(versions: set[RecordedVersion]) -> set[tuple[Any, ...]]:
    """Returns the versions without what only a server says: ETags and times."""
    return {version[:8] for version in versions}
