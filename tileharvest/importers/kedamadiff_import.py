"""The import of a KedamaDiff archive: each day on which it saved images becomes a day of the history.

An archive says nothing of tiles that did not change or that vanished. So its days are recorded as days of
which only the changes are known.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha1
from itertools import islice
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError, HistoryError, SiteError, counted
from tileharvest.harvest.walks import kept_in_words, walk_over
from tileharvest.history.imported_day import ImportedDay, ImportedTile, imported_days, record_day
from tileharvest.history.outlines import map_outline
from tileharvest.renderers.registry import USUAL
from tileharvest.tiles.grid import least_depth
from tileharvest.tiles.images import identify, opened
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from tileharvest.history.database import History
    from tileharvest.history.outlines import MapOutline
    from tileharvest.importers.imported_map import ImportWatch
    from tileharvest.importers.kedamadiff import ArchivedTile, KedamaDiffArchive
    from tileharvest.maps.description import MapDescription
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.versions import Image

_READERS: Final = 8
"""The number of images that are read at the same time. Reading one from S3 takes 20 to 200 ms, most of it
waiting."""
_AT_ONCE: Final = 64
"""The number of images that are read and stored together."""
_A_DAY: Final = timedelta(days=1)
"""How far a day of an archive may lie ahead: in the archive's own time zone it may be tomorrow already."""
_ROTATION: Final = "tl"
"""The rotation of Mapcrafter's maps that KedamaDiff harvests."""


@dataclass(slots=True)
class KedamaDiffImport:
    """Imports an archive into the history of a map."""

    archive: KedamaDiffArchive
    description: MapDescription
    history: History
    store: TileStore
    now: datetime
    layer: str | None = None
    """The layer of the archive's tiles. None: the map's only layer, or the one that the archive names."""
    outside: int = 0
    """The number of records that were left out because the map does not keep their tiles, by its zooms and
    zones."""
    _base: Layer | None = None

    def run(self, watch: ImportWatch) -> None:
        """Imports all days that were not imported yet, or whose records have changed since, oldest first.

        Each day is one transaction, so that a killed import goes on with the next day. Raises
        ConfigurationError if nobody says to which layer the archive belongs, SiteError if the map keeps none
        of its tiles, StoreError, HistoryError, and TileHarvestError for records that cannot be read.
        """
        known = self._known()
        name = self._layer_name(known)
        done = imported_days(self.history, self.description.name, self.archive.source)
        today = self.now.astimezone(self.description.zone_info).date()
        watch.expects(self.archive.count())
        is_any = bool(done)
        for day, records in self.archive.days():
            if day > today + _A_DAY:
                watch.left_out(day, "the day has not begun")
            elif done.get(day) != (state := _state(records)):
                is_any |= self._record(day, records, state, name, known, watch)
            watch.passed(1)
        if self.outside and not is_any:
            raise SiteError(
                f"map '{self.description.name}' keeps none of the tiles of {self.archive.savename}, by its"
                " zooms and zones in maps.toml; nothing was imported"
            )

    def _record(
        self,
        day: date,
        records: Sequence[ArchivedTile],
        state: str,
        name: str,
        known: MapOutline | None,
        watch: ImportWatch,
    ) -> bool:
        """Records a day, unless the map keeps none of its tiles or none of its images is there. Returns
        whether the map keeps any of its tiles."""
        layer = self._described(name, known, day, records)
        areas = walk_over(self.description, layer).kept()
        kept = [one for one in records if any(one.tile in area for area in areas)]
        self.outside += len(records) - len(kept)
        images, stored_bytes = self._stored(day, kept, watch)
        missing = len(kept) - len(images)
        if not images:
            if kept:
                watch.left_out(day, f"none of its {counted(missing, 'image')} can be read")
            return bool(kept)
        record = record_day(
            self.history,
            ImportedDay(
                map_name=self.description.name,
                source=self.archive.source,
                # A missing image may be found again. The state then differs, and the day is imported anew.
                state=f"{state}, {missing} missing" if missing else state,
                day=day,
                imported=self.now,
                renderer=self._renderer(known),
                layers=[layer],
                tiles=[ImportedTile(name, one.tile, image, Validator(one.etag)) for one, image in images],
                kept=kept_in_words(self.description, {name: layer.depth}),
                stored_bytes=stored_bytes,
            ),
        )
        watch.recorded(day, record)
        return bool(kept)

    def _stored(
        self, day: date, records: Sequence[ArchivedTile], watch: ImportWatch
    ) -> tuple[list[tuple[ArchivedTile, Image]], int]:
        """Stores the images of the records. Returns each record that has one with its image, and the bytes
        that were not in the store before. The watch learns of the others."""

        def read(one: ArchivedTile) -> bytes | None:
            return self.archive.image(day, one.file)

        found: list[tuple[ArchivedTile, Image]] = []
        left, stored_bytes = iter(records), 0
        with ThreadPoolExecutor(_READERS, "import-read") as readers:
            while part := list(islice(left, _AT_ONCE)):
                bodies: dict[Image, bytes] = {}
                for one, body in zip(part, readers.map(read, part), strict=True):
                    if body is None:
                        watch.lacks(day, one.file, "the archive has no such image")
                        continue
                    try:
                        image = identify(body)
                    except ValueError as error:
                        watch.lacks(day, one.file, f"the file is not an image: {error}")
                        continue
                    bodies[image] = body
                    found.append((one, image))
                stored_bytes += sum(image.size for image in self.store.put(bodies))
        return found, stored_bytes

    def _known(self) -> MapOutline | None:
        try:
            return map_outline(self.history, self.description.name)
        except HistoryError:
            # Nothing was ever harvested.
            return None

    def _layer_name(self, known: MapOutline | None) -> str:
        wanted = self.description.layers
        there = [layer.name for layer in known.layers] if known else []
        name = self.layer or _only(wanted) or _only(there) or self._own_layer()
        if name is None:
            raise ConfigurationError(
                f"which layer of map '{self.description.name}' is the archive of? add --layer, such as"
                f" --layer {next(iter([*wanted, *there]), 'world/day')}; nothing was changed"
            )
        if wanted and name not in wanted:
            raise ConfigurationError(
                f"map '{self.description.name}' keeps the layers {', '.join(wanted)} by maps.toml, and not"
                f" '{name}'; nothing was changed"
            )
        return name

    def _own_layer(self) -> str | None:
        """Returns the layer's name by the archive, or None if the archive does not say."""
        name = self.archive.attributes.get("map_name")
        is_turned = self.archive.attributes.get("renderer") == "Mapcrafter"
        rotation = self.archive.attributes.get("rotation", _ROTATION)
        return f"{name}/{rotation}" if name and is_turned else name

    def _renderer(self, known: MapOutline | None) -> str:
        said = str(self.archive.attributes.get("renderer") or "").lower()
        return self.description.renderer or (known and known.renderer) or said or USUAL.name

    def _described(
        self, name: str, known: MapOutline | None, day: date, records: Sequence[ArchivedTile]
    ) -> Layer:
        """Returns the layer as it was on that day: as the history describes it, or else by the archive's
        images."""
        deepest = int(self.archive.attributes.get("total_depth") or 0)
        layer = known.layer(name) if known else None
        if self._base is None and layer is not None:
            self._base = layer.described(day)
            deepest = deepest or self._base.depth
        depth = max([deepest, *(least_depth(one.tile) for one in records)])
        if self._base is None:
            self._base = self._first_described(name, day, records)
        return replace(self._base, pyramid=Pyramid(depth))

    def _first_described(self, name: str, day: date, records: Sequence[ArchivedTile]) -> Layer:
        for one in records:
            body = self.archive.image(day, one.file)
            if body is not None:
                try:
                    image = identify(body)
                except ValueError:
                    continue
                with opened(body) as picture:
                    return Layer(name, Pyramid(1), image.extension, tile_size=picture.size)
        return Layer(name, Pyramid(1), "jpg")


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _state(records: Sequence[ArchivedTile]) -> str:
    """Returns a text that differs for different records."""
    text = "\n".join(sorted(f"{one.file} {one.etag}" for one in records))
    return sha1(text.encode(), usedforsecurity=False).hexdigest()
