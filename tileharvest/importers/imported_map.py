"""A map whose past is imported: each snapshot becomes a day of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tileharvest.harvest.walks import kept_in_words
from tileharvest.history.imported_day import (
    ImportedDay,
    ImportedTile,
    imported_days,
    last_day_before,
)
from tileharvest.history.recorded_versions import versions_until
from tileharvest.importers.replay import Replay
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date, datetime

    from tileharvest.history.database import History
    from tileharvest.history.imported_day import DayRecord
    from tileharvest.history.site_files import SiteFile
    from tileharvest.importers.images import ImportedImages
    from tileharvest.importers.snapshot import Snapshot
    from tileharvest.importers.snapshot_site import SnapshotSite
    from tileharvest.maps.description import MapDescription
    from tileharvest.tiles.results import TileResult


class ImportWatch(Protocol):
    """Is told how an import gets on."""

    def expects(self, parts: int) -> None:
        """Is told once how many parts the source has: commits, folders or days."""

    def passed(self, parts: int) -> None:
        """Is told that this many more parts are done, whatever they brought."""

    def recorded(self, day: date, record: DayRecord) -> None:
        """Is told that a day is in the history now."""

    def left_out(self, day: date, why: str) -> None:
        """Is told that a day could not be read, and was not recorded."""

    def lacks(self, day: date, file: str, why: str) -> None:
        """Is told that the source names an image of a day and does not have it. The day is recorded without
        the image."""


class ImportedMap:
    """Imports the snapshots of one source into the history of a map."""

    def __init__(
        self,
        description: MapDescription,
        history: History,
        images: ImportedImages,
        source: str,
        clock: Callable[[], datetime],
    ) -> None:
        """`source` is the name of the snapshots' source, as `ImportedDay` has it."""
        self._description = description
        self._history = history
        self._source = source
        self._clock = clock
        self._images = images
        self._replay: Replay | None = None
        self._files: Mapping[str, SiteFile] = {}
        """The site's files of the day that was recorded last."""
        self._day: date | None = None
        """The day that was recorded last by this object."""

    def days(self) -> dict[date, str]:
        """Returns the days that were imported from this source, in order, each with the state that was
        imported. The state of a day without any tile, which was a mistake, is empty."""
        return imported_days(self._history, self._description.name, self._source)

    async def add(
        self, snapshot: Snapshot, changed: set[str] | None, day: date, state: str, *, anew: bool = False
    ) -> DayRecord:
        """Records the snapshot as a harvest of the day, after its images are stored.

        `changed` are the paths whose bytes may differ from the snapshot before; None means that all may.
        `state` tells this snapshot from others of the same day. With `anew` the day names all of its tiles,
        so that nothing is left of what was recorded for it before.

        Raises SiteError if the snapshot cannot be read as a map, NoTilesError if it has no tile and none is
        known, and MovedError if most of the known tiles are missing. The day is then left out, and the next
        one may be added. Raises StoreError and HistoryError.
        """
        is_next = (
            not anew
            and self._replay is not None
            and self._day == last_day_before(self._history, self._description.name, day)
        )
        if self._replay is None or not is_next:
            # This is the first day, or the history has got other days since the last one.
            latest = versions_until(self._history, self._description.name, day)
            self._replay = Replay(self._description, latest, self._images.put)
        site, results = await self._replay.advance(snapshot, changed if is_next else None, day)
        new_bytes = self._images.durable()
        layers = [part.layer for part in site.layers.values()]
        tiles = _changed(results) if is_next else self._all(site, results)
        record = self._images.record(
            self._history,
            ImportedDay(
                map_name=self._description.name,
                source=self._source,
                state=state,
                day=day,
                imported=self._clock(),
                renderer=site.site.renderer,
                layers=layers,
                tiles=tiles,
                areas=None if is_next else {name: part.walk.kept() for name, part in site.layers.items()},
                is_complete=True,
                unchanged=self._unchanged(tiles) if is_next else {},
                kept=kept_in_words(self._description, {layer.name: layer.depth for layer in layers}),
                stored_bytes=new_bytes,
                files=None if is_next and site.files is self._files else site.files,
            ),
        )
        self._day, self._files = day, site.files
        return record

    def _all(self, site: SnapshotSite, results: Sequence[TileResult]) -> list[ImportedTile]:
        """Returns all tiles of the day. A tile that is not among them was not there."""
        assert self._replay is not None
        failed = [one for one in _changed(results) if one.missing is not None]
        names = {(one.layer, one.tile) for one in failed}
        return failed + [
            ImportedTile(layer, tile, version.image, version.validator)
            for (layer, tile), version in self._replay.latest.items()
            if version.image is not None and layer in site.layers and (layer, tile) not in names
        ]

    def _unchanged(self, named: list[ImportedTile]) -> Mapping[str, int]:
        assert self._replay is not None
        unchanged = self._replay.present.copy()
        unchanged.subtract(one.layer for one in named if one.image is not None)
        return {layer: number for layer, number in unchanged.items() if number > 0}


def _changed(results: Sequence[TileResult]) -> list[ImportedTile]:
    return [
        ImportedTile(one.layer, one.tile, one.image, one.validator or Validator(), missing=one.reason)
        for one in results
    ]
