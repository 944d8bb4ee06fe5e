"""The restored tree of a map's site: its files as they were on a day, from history and store."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import msgspec
from PIL import Image

from tileharvest.errors import ConfigurationError, SiteError, StoreError, TileHarvestError
from tileharvest.export.excerpt import areas_with_tiles
from tileharvest.export.target import writing_to
from tileharvest.history.recorded_versions import shown
from tileharvest.history.site_files import MISSING, first_day_of_files, site_files_of
from tileharvest.pictures.composer import Composer, PastLayer
from tileharvest.pictures.pixels import UNREADABLE, background_of, decoded, packed
from tileharvest.pictures.threads import each_in_order, open_threads
from tileharvest.renderers.addresses import QuadtreeAddresses
from tileharvest.renderers.registry import probe
from tileharvest.renderers.site import Fetched, Site, path_of
from tileharvest.tiles.grid import first_level
from tileharvest.walk.proof import seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from tileharvest.export.target import Watch
    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.history.site_files import SiteFile
    from tileharvest.maps.description import MapDescription
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.layers import Layer
    from tileharvest.tiles.versions import Version

_AT_ONCE: Final = 4
"""The number of threads that read and write files."""


@dataclass(slots=True)
class Restored:
    """The counts of a restored tree, and what it lacks."""

    tiles: int = 0
    bytes: int = 0
    files: list[str] = field(default_factory=list)
    """The paths of the restored configuration files."""
    composed: dict[int, int] = field(default_factory=dict)
    """The number of tiles of each zoom that were composed of deeper ones, because the history has no images
    of them."""
    lacking: list[str] = field(default_factory=list)
    """Sentences about what the tree lacks, or has in another form."""
    missing: int = 0
    """The number of tiles whose images cannot be read. They were left out."""
    elsewhere: int = 0
    """The number of tiles and files whose addresses do not lie below the map's page. They were left out."""


@dataclass(frozen=True)
class PastSite:
    """A map's site on a day, as its configuration files of that day describe it."""

    history: History
    description: MapDescription
    map: MapOutline
    day: date
    site: Site
    files: Mapping[str, SiteFile]
    files_day: date
    """The day of which the files are: that day, or a later one if no earlier files are kept."""

    @classmethod
    def on(cls, history: History, description: MapDescription, outline: MapOutline, day: date) -> PastSite:
        """Returns the site on that day. Raises TileHarvestError if nothing says where its tiles lie."""
        if outline.renderer is not None:
            description = msgspec.structs.replace(description, renderer=outline.renderer)

        files: Mapping[str, SiteFile] = {}

        async def fetch(method: str, url: str) -> Fetched:
            file = files.get(url)
            return Fetched(404, b"", url) if file is None else Fetched(200, file.body, url)

        why = ""
        tried: date | None = day
        # The history may lack some files of early days, so later days are tried in turn.
        while tried is not None:
            kept = site_files_of(history, description.name, tried)
            files = {url: file for url, file in kept.items() if file != MISSING}
            for page in (description.url, *_pages_above(files)):
                there = msgspec.structs.replace(description, url=page)
                try:
                    site = asyncio.run(probe(there, fetch))
                except SiteError as error:
                    why = why or str(error)
                    continue
                past = cls(history, there, outline, day, site, files, tried)
                past._expect_fit()
                return past
            tried = first_day_of_files(history, description.name, tried)
        raise TileHarvestError(
            f"the history has no configuration of map '{description.name}' for {day}, and without it nobody"
            f" knows where its tiles lie; nothing was made: the next harvest keeps it ({why})"
        )

    def layers(self) -> Iterator[tuple[LayerOutline, Layer]]:
        """Returns the layers that the history has, each with the site's description of it."""
        known = {layer.name: layer for layer in self.map.layers if layer.kept_zooms(self.day)}
        return ((known[layer.name], layer) for layer in self.site.layers if layer.name in known)

    def _expect_fit(self) -> None:
        """Raises TileHarvestError if the site's files cannot be of this day."""
        for outline, layer in self.layers():
            then = outline.described(self.day)
            if (then.depth, then.image_extension) != (layer.depth, layer.image_extension):
                raise TileHarvestError(
                    f"layer '{layer.name}' had depth {then.depth} and images of {then.image_extension} on"
                    f" {self.day}, and the configuration that is kept, of {self.files_day}, has"
                    f" {layer.depth} and {layer.image_extension}: nobody knows where its tiles lay; nothing"
                    " was made"
                )


def _pages_above(files: Mapping[str, SiteFile]) -> Iterator[str]:
    """Returns the addresses at which the map's page may have been on that day: each folder above one of the
    files."""
    folders = (url.partition("?")[0].split("/")[:-1] for url in files)
    pages = ("/".join(parts[:number]) for parts in folders for number in range(len(parts), 2, -1))
    return (f"{page}/" for page in dict.fromkeys(pages))


def restore(past: PastSite, store: TileStore, folder: Path, watch: Watch) -> Restored:
    """Writes the site's files of the day into the folder, which must not exist or must be empty.

    Each file gets the bytes and the time that the site sent. Raises TileHarvestError. After an error there is
    no folder.
    """
    with _whole_folder(folder) as beside:
        return _Restoring(past, store, beside, watch).restore()


@dataclass
class _Restoring:
    """Writes the files of a past site into a folder."""

    _past: PastSite
    _store: TileStore
    _folder: Path
    _watch: Watch
    restored: Restored = field(default_factory=Restored)

    def restore(self) -> Restored:
        past, restored = self._past, self.restored
        parts = [
            (outline, layer, area)
            for outline, layer in past.layers()
            for zoom in outline.kept_zooms(past.day)
            for area in areas_with_tiles(past.history, outline, zoom, zoom)
        ]
        self._watch.expects(len(parts))
        for url, file in past.files.items():
            if (target := self._put(url, file.body, file.validator.last_modified)) is not None:
                restored.files.append(target.relative_to(self._folder).as_posix())
        restored.files.sort()
        with open_threads(_AT_ONCE, "restore") as pool:
            for outline, layer, area in parts:
                versions = shown(past.history, outline.id, area, past.day)
                found = {tile: version for tile, version in versions.items() if not version.gone}
                bodies = each_in_order(pool, self._read, found.values(), 4 * _AT_ONCE)
                for (tile, version), body in zip(found.items(), bodies, strict=True):
                    if body is None:
                        restored.missing += 1
                    elif self._put(layer.addresses.url_of(tile), body, version.validator.last_modified):
                        restored.tiles += 1
                self._watch.passed()
        for outline, layer in past.layers():
            self._compose(outline, layer)
            self._compose_whole_map(outline, layer)
        restored.lacking += _lacking(past)
        return restored

    def _read(self, version: Version) -> bytes | None:
        assert version.image is not None
        try:
            return self._store.named(version.image.file_name)
        except StoreError:
            return None

    def _put(self, url: str, body: bytes, last_modified: str | None = None) -> Path | None:
        """Writes a file of the site with its time. Returns its place, or None if its address does not lie
        below the map's page. Such files are counted."""
        target = _path(self._folder, url, self._past.description.page)
        if target is None:
            self.restored.elsewhere += 1
            return None
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
        self.restored.bytes += len(body)
        if (written := seconds_of(last_modified)) is not None:
            os.utime(target, (written, written))
        return target

    def _compose(self, outline: LayerOutline, layer: Layer) -> None:
        """Composes the zooms that the map does not keep, of deeper ones, if their tiles nest by two."""
        past, kept = self._past, outline.kept_zooms(self._past.day)
        then, composer = outline.described(past.day), Composer(self._store)
        for zoom in range(kept[-1] - 1, layer.pyramid.first - 1, -1):
            layer_then = PastLayer.of(past.history, past.map, outline, past.day, zoom)
            if zoom in kept or layer_then is None:
                continue
            for area in areas_with_tiles(past.history, outline, layer_then.source, zoom):
                for tile, part in composer.parts(layer_then, area).items():
                    self._watch.passed(0)
                    # An image that cannot be read was counted when its own tile was left out.
                    image, _ = composer.image(layer_then, part)
                    if image is None:
                        continue
                    body = packed(image, layer.image_extension, background_of(None, then.background))
                    if self._put(layer.addresses.url_of(tile), body):
                        self.restored.composed[zoom] = self.restored.composed.get(zoom, 0) + 1

    def _compose_whole_map(self, outline: LayerOutline, layer: Layer) -> None:
        """Composes the image above the first level as Overviewer and Mapcrafter do: of the four tiles of that
        level, which are in the folder already."""
        if not isinstance(layer.addresses, QuadtreeAddresses):
            return
        then = outline.described(self._past.day)
        width, height = then.tile_size
        whole, is_any = Image.new("RGBA", (2 * width, 2 * height)), False
        for number, tile in enumerate(first_level(layer.depth)):
            place = _path(self._folder, layer.addresses.url_of(tile), self._past.description.page)
            if place is None or not place.is_file():
                continue
            with suppress(*UNREADABLE):
                part = decoded(place.read_bytes(), then.tile_size)
                whole.paste(part, (number % 2 * width, number // 2 * height))
                is_any = True
        body = packed(whole.reduce(2), layer.image_extension, background_of(None, then.background))
        if is_any and (target := self._put(layer.addresses.whole_map, body)) is not None:
            self.restored.lacking.append(
                f"{target.relative_to(self._folder).as_posix()}, the image of the whole map, is composed of"
                " the first level's tiles and not the site's own"
            )


def _lacking(past: PastSite) -> Iterator[str]:
    """Yields sentences about what a restored tree lacks."""
    if past.files_day != past.day:
        yield f"the configuration is that of {past.files_day}: no earlier one is kept"
    kept = {outline.name for outline, _ in past.layers()}
    for layer in past.site.layers:
        if layer.name not in kept:
            yield f"layer '{layer.name}' had no tile in the history on {past.day}"
    for outline, layer in past.layers():
        deepest = outline.kept_zooms(past.day)[-1]
        if deepest < 0:
            yield f"of layer '{layer.name}' the history has nothing deeper than zoom {deepest}"
        lacks = [zoom for zoom in range(layer.pyramid.first, deepest) if zoom not in outline.zooms]
        if lacks and outline.factor != 2:
            zooms = ", ".join(map(str, lacks))
            yield f"of layer '{layer.name}' the zooms {zooms} are not kept, and cannot be composed"
    yield (
        "files that no harvest asks for are not kept, such as the page with its scripts; a fresh installation"
        " of the renderer has the page"
    )


def _path(folder: Path, url: str, page: str) -> Path | None:
    """Returns the place of a file of the site, or None if its address does not lie below the map's page."""
    path = path_of(url, page)
    if path is None:
        return None
    parts = PurePosixPath(path).parts
    # No address of a site may lead to another place on this computer.
    if ".." in parts or path.startswith("/") or "\0" in path or "\\" in path:
        return None
    return folder.joinpath(*parts)


@contextmanager
def _whole_folder(folder: Path) -> Iterator[Path]:
    """Makes a folder beside this one, which it replaces when the block ends. If the block raises, the new
    folder is removed. Raises ConfigurationError if this folder is not empty."""
    folder = folder.resolve()
    with writing_to(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigurationError(
                f"{folder} is there already: nothing was made; name a folder that is not there, or is empty"
            )
        beside = folder.with_name(f".{folder.name}.{token_hex(4)}.unfinished")
        beside.mkdir()
        try:
            yield beside
            # Linux replaces an empty folder. On other systems it must be removed first.
            if folder.exists():
                folder.rmdir()
            beside.rename(folder)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
