"""The import of a KedamaDiff archive: each day on which it saved images becomes a day of the history.

An archive says nothing of tiles that did not change or that vanished. So its days are recorded as days of
which only the changes are known.
"""

from __future__ import annotations

from dataclasses import replace
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

_AT_ONCE: Final = 64
"""The number of images that are read and stored together."""
_A_DAY: Final = timedelta(days=1)
"""How far a day of an archive may lie ahead: in the archive's own time zone it may be tomorrow already."""
_ROTATION: Final = "tl"
"""The rotation of Mapcrafter's maps that KedamaDiff harvests."""


def import_kedamadiff(
    archive: KedamaDiffArchive,
    description: MapDescription,
    history: History,
    store: TileStore,
    now: datetime,
    watch: ImportWatch,
    layer: str | None = None,
) -> int:
    """Imports all days of an archive that were not imported yet, or whose records have changed since, oldest
    first.

    `layer` is the layer of the archive's tiles. None: the map's only layer, or the one that the archive
    names. Each day is one transaction, so that a killed import goes on with the next day. Returns the number
    of records that were left out because the map does not keep their tiles, by its zooms and zones. Raises
    ConfigurationError if nobody says to which layer the archive belongs, SiteError if the map keeps none of
    its tiles, StoreError, HistoryError, and TileHarvestError for records that cannot be read.
    """
    known = _known(history, description.name)
    name = _layer_name(archive, description, known, layer)
    said = str(archive.attributes.get("renderer") or "").lower()
    renderer = description.renderer or (known and known.renderer) or said or USUAL.name
    done = imported_days(history, description.name, archive.source)
    today = now.astimezone(description.zone_info).date()
    watch.expects(archive.count())
    base: Layer | None = None
    outside, is_any = 0, bool(done)
    for day, records in archive.days():
        state = _state(records)
        if day > today + _A_DAY:
            watch.left_out(day, "the day has not begun")
        elif done.get(day) != state:
            base = base or _described(archive, name, known, day, records)
            depth = int(archive.attributes.get("total_depth") or base.depth)
            there = replace(base, pyramid=Pyramid(max(depth, *(least_depth(one.tile) for one in records))))
            areas = walk_over(description, there).kept()
            kept = [one for one in records if any(one.tile in area for area in areas)]
            outside += len(records) - len(kept)
            images, stored_bytes = _stored(archive, store, day, kept, watch)
            missing, is_any = len(kept) - len(images), is_any or bool(kept)
            if images:
                record = record_day(
                    history,
                    ImportedDay(
                        map_name=description.name,
                        source=archive.source,
                        # A missing image may be found again. The state then differs, and the day is imported
                        # anew.
                        state=f"{state}, {missing} missing" if missing else state,
                        day=day,
                        imported=now,
                        renderer=renderer,
                        layers=[there],
                        tiles=[
                            ImportedTile(name, one.tile, image, Validator(one.etag)) for one, image in images
                        ],
                        kept=kept_in_words(description),
                        stored_bytes=stored_bytes,
                    ),
                )
                watch.recorded(day, record)
            elif kept:
                watch.left_out(day, f"none of its {counted(missing, 'image')} can be read")
        watch.passed(1)
    if outside and not is_any:
        raise SiteError(
            f"map '{description.name}' keeps none of the tiles of {archive.savename}, by its zooms and zones"
            " in maps.toml; nothing was imported"
        )
    return outside


def _stored(
    archive: KedamaDiffArchive,
    store: TileStore,
    day: date,
    records: Sequence[ArchivedTile],
    watch: ImportWatch,
) -> tuple[list[tuple[ArchivedTile, Image]], int]:
    """Stores the images of the records. Returns each record that has one with its image, and the bytes that
    were not in the store before. The watch learns of the others."""
    found: list[tuple[ArchivedTile, Image]] = []
    left, stored_bytes = iter(records), 0
    while part := list(islice(left, _AT_ONCE)):
        bodies: dict[Image, bytes] = {}
        for one in part:
            body = archive.image(day, one.file)
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
        stored_bytes += sum(image.size for image in store.put(bodies))
    return found, stored_bytes


def _known(history: History, name: str) -> MapOutline | None:
    try:
        return map_outline(history, name)
    except HistoryError:
        # Nothing was ever harvested.
        return None


def _layer_name(
    archive: KedamaDiffArchive, description: MapDescription, known: MapOutline | None, wanted: str | None
) -> str:
    kept, there = description.layers, [layer.name for layer in known.layers] if known else []
    own = archive.attributes.get("map_name")
    if own and archive.attributes.get("renderer") == "Mapcrafter":
        own = f"{own}/{archive.attributes.get('rotation', _ROTATION)}"
    only = [names[0] for names in (kept, there) if len(names) == 1]
    name = wanted or next(iter([*only, own]), None)
    if name is None:
        raise ConfigurationError(
            f"which layer of map '{description.name}' is the archive of? add --layer, such as --layer"
            f" {next(iter([*kept, *there]), 'world/day')}; nothing was changed"
        )
    if kept and name not in kept:
        raise ConfigurationError(
            f"map '{description.name}' keeps the layers {', '.join(kept)} by maps.toml, and not '{name}';"
            " nothing was changed"
        )
    return str(name)


def _described(
    archive: KedamaDiffArchive,
    name: str,
    known: MapOutline | None,
    day: date,
    records: Sequence[ArchivedTile],
) -> Layer:
    """Returns the layer as the history describes it on a day, or else as the archive's first image shows."""
    if known is not None and (layer := known.layer(name)) is not None:
        return layer.described(day)
    for one in records:
        body = archive.image(day, one.file)
        if body is not None:
            try:
                image = identify(body)
            except ValueError:
                continue
            with opened(body) as picture:
                return Layer(name, Pyramid(1), image.extension, tile_size=picture.size)
    return Layer(name, Pyramid(1), "jpg")


def _state(records: Sequence[ArchivedTile]) -> str:
    """Returns a text that differs for different records."""
    text = "\n".join(sorted(f"{one.file} {one.etag}" for one in records))
    return sha1(text.encode(), usedforsecurity=False).hexdigest()
