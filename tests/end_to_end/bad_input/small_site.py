"""A site of 20 tiles, and what a user sees of its harvests: exit status, lines on stderr, files."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha1
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from PIL import Image

from tests.end_to_end.project import Project
from tests.end_to_end.rendering import Rendering
from tests.history.outcomes import RESULTS
from tests.servers.misbehaving import Misbehaving, Received, misbehaving

FIRST_DAY: Final = "2024-05-01"
SECOND_DAY: Final = "2024-05-02"
THIRD_DAY: Final = "2024-05-03"

LAYER: Final = "world-day"
FIRST_LEVEL: Final = ("0", "1", "2", "3")
PATHS: Final = tuple(f"{above}{last}" for above in ("", *FIRST_LEVEL) for last in FIRST_LEVEL)
"""Every tile of a site of depth 2, by its digits: `0` to `3` and `00` to `33`."""

_RENDERED: Final = 1_714_500_000
"""When the site's files were written, in seconds since 1970."""


class Found(NamedTuple):
    """What the last harvest that has asked for a tile has found."""

    outcome: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Visit:
    """A `scrapy harvest` that has ended."""

    status: int
    """The process's exit status."""
    said: str
    """All of stderr."""
    reports: list[dict[str, Any]]
    """The reports that it wrote to stdout, one per map. Empty if it ended before the first harvest."""

    @property
    def counts(self) -> dict[str, int]:
        (report,) = self.reports
        return dict(report["counts"])

    @property
    def error(self) -> str:
        """The one line on stderr, without the word `error:`. Raises AssertionError if there are more."""
        (line,) = self.said.splitlines()
        word, _, message = line.partition(": ")
        assert word.lower() == "error", line
        return message


@dataclass(frozen=True, slots=True)
class SmallSite(Rendering):
    """The folder of the site's files. Tiles are named by their digits."""

    depth: int = 2
    layer: str = LAYER

    def write(self, path: str, content: bytes) -> None:
        """Writes a tile, and gives the file another time than before."""
        file = self.file(path)
        time = int(file.stat().st_mtime) + 60 if file.exists() else _RENDERED
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        os.utime(file, (time, time))

    def remove(self, *paths: str) -> None:
        for path in paths:
            self.file(path).unlink()

    def sha1(self, path: str) -> str:
        return sha1(self.file(path).read_bytes()).hexdigest()


_PLACES: Final = {path: SmallSite(Path()).tile(path)[1:] for path in PATHS}
"""By path: zoom and centre of the tile."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A small site, its server, and a user's project with the map `small`."""

    files: SmallSite
    site: Misbehaving
    project: Project

    def describe(self, **keys: Any) -> None:
        """Lets `maps.toml` have the map with these keys only."""
        self.project.maps_file.unlink(missing_ok=True)
        self.project.add_map("small", f"{self.site.url}/", **keys)


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    files = publish(folder / "site")
    project = Project(folder / "project")
    project.folder.mkdir()
    with misbehaving(files.folder) as site:
        stage = Stage(files, site, project)
        stage.describe()
        yield stage


def publish(folder: Path, pixels: int = 16) -> SmallSite:
    """Makes a site with all 20 tiles. Each is another image of about `3 * pixels ** 2` bytes."""
    site = SmallSite(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "overviewerConfig.js").write_text(configuration(), encoding="utf-8")
    for path in PATHS:
        site.write(path, drawn(path, pixels))
    return site


def configuration() -> str:
    tileset = {"path": LAYER, "zoomLevels": 2, "imgextension": "png", "isOverlay": False}
    said = {"CONST": {"tileSize": 48}, "tilesets": [tileset]}
    return f"var overviewerConfig = {json.dumps(said)};\n"


def drawn(name: str, pixels: int = 16) -> bytes:
    """Returns a PNG of noise, which hardly compresses. A name has always the same one."""
    picture = Image.frombytes("RGB", (pixels, pixels), Random(name).randbytes(3 * pixels * pixels))
    buffer = BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def address(path: str) -> str:
    """Returns the path of the tile's URL."""
    return f"/{LAYER}/{'/'.join(path)}.png"


def visit(project: Project, day: str, *more: str, names: tuple[str, ...] = ("small",)) -> Visit:
    """Runs `scrapy harvest`, with pauses of 20 ms between attempts."""
    done = project.scrapy(
        "harvest", *names, "-a", f"day={day}", "--json", "-s", "RETRY_PAUSE=0.02", *more, check=False
    )
    return Visit(done.returncode, done.stderr, json.loads(done.stdout) if done.stdout else [])


def found(project: Project) -> dict[str, Found]:
    """Returns what the last harvest found, by path. It is read from the database."""
    rows = project.query(RESULTS + "SELECT zoom, x, y, outcome, reason FROM results")
    paths = {place: path for path, place in _PLACES.items()}
    return {paths[tuple(place)]: Found(outcome, reason) for *place, outcome, reason in rows}


def versions(project: Project, path: str) -> list[tuple[str, str | None, str | None]]:
    """Returns day, SHA1 and ETag of a tile's versions, the oldest first. They are read from the database."""
    place = _PLACES[path]
    query = "SELECT day, sha1, etag FROM versions WHERE zoom = ? AND x = ? AND y = ? ORDER BY day"
    return [(day, name, etag) for day, name, etag in project.query(query, *place)]


def asked(site: Misbehaving, path: str) -> list[Received]:
    """Returns the requests for a tile."""
    return [request for request in site.received if request.path == address(path)]


def methods(site: Misbehaving, path: str) -> list[str]:
    return [request.method for request in asked(site, path)]
