"""Imports in this process: what they tell, and what the history has afterwards."""

import asyncio
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from PIL import Image

from tests.export.conftest import Count
from tests.servers.repositories import FastImport, moment_of
from tileharvest.history.database import History
from tileharvest.history.imported_day import DayRecord
from tileharvest.history.outlines import map_outline
from tileharvest.history.recorded_versions import story
from tileharvest.importers.imported_map import SOURCE, ImportedMap, import_folder, import_git
from tileharvest.importers.repository import Repository
from tileharvest.maps.description import MapDescription, TileBounds
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome

NOW = datetime(2024, 6, 1, tzinfo=UTC)
PLAIN = MapDescription(
    name="plain",
    url="https://map.example.net/{z}/{x}/{y}.png",
    site_zooms=(0, 2),
    bounds=TileBounds(zoom=0, x=(0, 0), y=(0, 0)),
)
"""A map of plain tiles."""


@dataclass
class Watched(Count):
    """Collects what an import tells its watch."""

    days: list[date] = field(default_factory=list)
    unread: list[tuple[date, str]] = field(default_factory=list)
    missing: list[tuple[date, str, str]] = field(default_factory=list)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    outside: int = 0

    def recorded(self, day: date, record: DayRecord) -> None:
        self.days.append(day)
        self.outcomes.update(record.counts)

    def left_out(self, day: date, why: str) -> None:
        self.unread.append((day, why))

    def lacks(self, day: date, file: str, why: str) -> None:
        self.missing.append((day, file, why))


def dot(number: int) -> bytes:
    """Returns a small image that differs from those of other numbers."""
    written = io.BytesIO()
    Image.new("RGB", (96, 96), (number % 256, number // 256, 7)).save(written, "PNG")
    return written.getvalue()


@dataclass
class Imports:
    """A history and a store in a folder, into which a map is imported."""

    folder: Path
    description: MapDescription = PLAIN

    @property
    def store(self) -> FileStore:
        return FileStore(self.folder / "tiles")

    @property
    def history(self) -> History:
        return History.open(f"sqlite:///{self.folder / 'history.sqlite'}")

    def git(
        self,
        address: Path | str,
        path: str | None = None,
        *,
        branch: str | None = None,
        rewritten: bool = False,
    ) -> Watched:
        """Imports the repository in a folder, or at an address."""
        if isinstance(address, str):
            source, folder = Repository(self.folder / "cache", address), ""
            tip = source.fetch(branch)
        else:
            source, tip, folder = Repository.in_place(address, branch)
        watch, zone = Watched(), ZoneInfo(self.description.timezone)
        with self.history as history:
            into = self._into(history, f"git {source.origin}")
            place = folder if path is None else path
            asyncio.run(import_git(into, source, tip, place, zone, NOW, watch, rewritten=rewritten))
        return watch

    def of_folder(self, folder: Path, day: date) -> Watched:
        """Imports a folder as the state of a day."""
        watch = Watched()
        with self.history as history:
            asyncio.run(import_folder(self._into(history, SOURCE), folder, day, watch))
        return watch

    def versions(self, tile: Tile) -> dict[str, str | None]:
        """Returns the versions of a tile of the only layer: the sha1 by the day, None for `gone`."""
        with self.history as history:
            (layer,) = map_outline(history, self.description.name).layers
            found = story(history, layer.id, tile)
            return {str(one.day): one.image and one.image.sha1 for one in found}

    def _into(self, history: History, source: str) -> ImportedMap:
        return ImportedMap(self.description, history, self.store, source, NOW)


def repository(folder: Path, days: Mapping[str, Mapping[str, bytes | None]]) -> FastImport:
    """Returns a repository with a commit of these files on each day."""
    made = FastImport(folder)
    for day, files in days.items():
        made.commit(moment_of(day), files)
    made.written()
    return made
