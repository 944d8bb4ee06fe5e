"""A site of 20 tiles, and harvests of it as a user sees them: exit status, lines on stderr, files."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha1
from io import BytesIO
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from PIL import Image

from tests.end_to_end.project import Project
from tests.servers.misbehaving import Misbehaving, misbehaving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.misbehaving import Received

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
    """What the last harvest that asked found for a tile."""

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
    """What it wrote to stdout: a report per map, none where it ended before."""

    @property
    def counts(self) -> dict[str, int]:
        (report,) = self.reports
        return dict(report["counts"])

    @property
    def error(self) -> str:
        """The one line on stderr, without the word that begins it. AssertionError if there are more."""
        (line,) = self.said.splitlines()
        word, _, message = line.partition(": ")
        assert word.lower() == "error", line
        return message


@dataclass(frozen=True, slots=True)
class SmallSite:
    """The site's folder."""

    folder: Path

    def write(self, path: str, content: bytes) -> None:
        """(Over)write a tile, with another time than before."""
        file = self.file(path)
        time = int(file.stat().st_mtime) + 60 if file.exists() else _RENDERED
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        os.utime(file, (time, time))

    def file(self, path: str) -> Path:
        return self.folder / address(path).lstrip("/")

    def remove(self, *paths: str) -> None:
        for path in paths:
            self.file(path).unlink()

    def sha1(self, path: str) -> str:
        return sha1(self.file(path).read_bytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class Stage:
    """A small site, its server, and a user's project that knows it as the map `small`."""

    files: SmallSite
    site: Misbehaving
    project: Project


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    files = publish(folder / "site")
    project = Project(folder / "project")
    project.folder.mkdir()
    with misbehaving(files.folder) as site:
        project.add_map("small", f"{site.url}/")
        yield Stage(files, site, project)


def publish(folder: Path, pixels: int = 16) -> SmallSite:
    """A site with all 20 tiles, no two alike, of about `3 * pixels ** 2` bytes each."""
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
    """A PNG that is always the same for a name, and hardly compresses."""
    picture = Image.frombytes("RGB", (pixels, pixels), Random(name).randbytes(3 * pixels * pixels))
    buffer = BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def address(path: str) -> str:
    """Where the site has the tile."""
    return f"/{LAYER}/{'/'.join(path)}.png"


def visit(project: Project, day: str, *more: str, names: tuple[str, ...] = ("small",)) -> Visit:
    """Run `scrapy harvest`, with pauses so short that nobody waits."""
    done = project.scrapy(
        "harvest", *names, "-a", f"day={day}", "--json", "-s", "RETRY_PAUSE=0.02", *more, check=False
    )
    return Visit(done.returncode, done.stderr, json.loads(done.stdout) if done.stdout else [])


def found(project: Project) -> dict[str, Found]:
    """What the last harvest found, by path, as the database has it."""
    rows = project.query("SELECT zoom, x, y, outcome, reason FROM tiles")
    return {_path(*place): Found(outcome, reason) for *place, outcome, reason in rows}


def versions(project: Project, path: str) -> list[tuple[str, str | None, str | None]]:
    """Day, sha1 and ETag of a tile's versions, oldest first, as the database has them."""
    place = _place(path)
    query = "SELECT day, sha1, etag FROM versions WHERE zoom = ? AND x = ? AND y = ? ORDER BY day"
    return [(day, name, etag) for day, name, etag in project.query(query, *place)]


def asked(site: Misbehaving, path: str) -> list[Received]:
    """The requests for a tile."""
    return [request for request in site.received if request.path == address(path)]


def methods(site: Misbehaving, path: str) -> list[str]:
    return [request.method for request in asked(site, path)]


def _place(path: str) -> tuple[int, int, int]:
    """Zoom and centre in a layer of depth 2, by the grid's definition: a step of 2, then one of 1."""
    x = sum((2 >> index) * (1 if digit in "13" else -1) for index, digit in enumerate(path))
    y = sum((2 >> index) * (1 if digit in "01" else -1) for index, digit in enumerate(path))
    return len(path) - 2, x, y


def _path(zoom: int, x: int, y: int) -> str:
    return {_place(path): path for path in PATHS}[zoom, x, y]
