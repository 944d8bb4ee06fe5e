"""Snapshots: the files of a map's site as they were at one moment, and the site that a renderer reads in
them: its layers, and the outcomes of its tiles."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import formatdate
from itertools import islice
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, TypeVar
from urllib.parse import quote

from tileharvest.errors import ConfigurationError, SiteError, program
from tileharvest.harvest.walks import LayerWalk, walk_over
from tileharvest.history.site_files import SiteFile
from tileharvest.renderers.registry import RENDERERS, probe, renderer_named
from tileharvest.renderers.site import Fetched, UnrecognisedError, path_of
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.images import size_of
from tileharvest.tiles.verdict import Answer, judge_get, judge_head, unless_blank
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.probe import Probe
    from tileharvest.renderers.site import Site
    from tileharvest.tiles.layers import Layer
    from tileharvest.tiles.verdict import Verdict
    from tileharvest.tiles.versions import Image, Version

_Item = TypeVar("_Item")

_LFS_POINTER: Final = b"version https://git-lfs"
"""The first bytes of a pointer of Git LFS: a file that stands for another one, which git itself does not
have."""

_SHOWN: Final = [renderer.files[0] for renderer in RENDERERS.values() if renderer.files][:2]
NO_SIGN: Final = (
    f"it has none of the files that renderers write beside a map's page, such as {' or '.join(_SHOWN)}"
)
"""The words for a place without such a file."""


class Snapshot(ABC):
    """The files of a site at one moment. Paths are relative to the map's page and begin with no slash."""

    def __init__(self, name: str, paths: Collection[str]) -> None:
        self.name = name
        """The snapshot's name in messages."""
        self.paths = paths
        """All paths, in no order."""

    @abstractmethod
    def validator(self, path: str) -> Validator:
        """Returns the validator of an existing file. It has an ETag only if the ETag is made of the bytes; a
        tile with a known ETag need not be read."""

    @abstractmethod
    def read(self, paths: Sequence[str]) -> Iterator[bytes]:
        """Yields the bytes of existing files, in this order. Raises SiteError."""


class FolderSnapshot(Snapshot):
    """A folder on this computer. Raises ConfigurationError if there is no such folder, and SiteError if a
    folder within it cannot be read.

    The names of files are read once, at the start. A file that vanishes afterwards raises SiteError when it
    is read.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ConfigurationError(f"{folder} is not a folder; nothing was changed")
        self._folder = str(folder)
        found = (f"{place}/{name}" for place, names in _tree(self._folder) for name in names)
        super().__init__(f"folder {folder}", frozenset(path[len(self._folder) + 1 :] for path in found))

    def validator(self, path: str) -> Validator:
        """Returns the file's time, as a server would give it, and no ETag. The time proves nothing, because
        copies of a folder lose the times."""
        try:
            modified = os.stat(f"{self._folder}/{path}").st_mtime  # noqa: PTH116 - a Path takes ten times as long
        except OSError:
            return Validator()
        return Validator(last_modified=formatdate(modified, usegmt=True))

    def read(self, paths: Sequence[str]) -> Iterator[bytes]:
        for path in paths:
            try:
                with open(f"{self._folder}/{path}", "rb", buffering=0) as file:  # noqa: PTH123
                    yield file.read()
            except OSError as error:
                _refuse(error)


def _tree(folder: str) -> Iterator[tuple[str, list[str]]]:
    """Yields each folder with the names of its files. Links are followed, but not to a folder above, which
    would lead round in circles."""
    for place, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        yield place, names
        above = f"{os.path.realpath(place)}/"
        for one in [one for one in folders if os.path.islink(f"{place}/{one}")]:  # noqa: PTH114 - for speed
            if above.startswith(f"{os.path.realpath(f'{place}/{one}')}/"):
                folders.remove(one)


def _refuse(error: OSError) -> NoReturn:
    raise SiteError(
        f"{error.filename} cannot be read ({error.strerror}); the day was not imported, and nothing was"
        " changed: make it readable and run again"
    ) from error


def refuse_pointer(body: bytes, path: str, place: str) -> None:
    """Raises SiteError if the bytes are a pointer of Git LFS."""
    if body.startswith(_LFS_POINTER):
        raise SiteError(
            f"{path} in {place} is a Git-LFS pointer, not the file itself, and git alone cannot fetch that;"
            " what was recorded before is kept, and nothing of this state was: check the files out with"
            f" `git lfs pull`, and use: {program()} import folder"
        )


def _address(page: str, path: str) -> str:
    """Returns the address of a file below the map's page. The path need not be in UTF-8."""
    return f"{page}{quote(path, errors='surrogateescape')}"


def in_parts(values: Sequence[_Item], most: int) -> Iterator[Sequence[_Item]]:
    """Yields the values in their order, at most `most` at a time."""
    return (values[start : start + most] for start in range(0, len(values), most))


def is_configuration(path: str) -> bool:
    """Returns whether a file has the name of a file that a renderer's probe reads."""
    name = path.rpartition("/")[2]
    return any(file.rpartition("/")[2] == name for renderer in RENDERERS.values() for file in renderer.files)


def maps_within(paths: Iterable[str]) -> list[str]:
    """Returns the folders that seem to have a map, by the files that renderers write.

    A longer name is a surer sign: any program may have a `config.js`. So only the folders with the longest
    name are returned. The top of the tree is `.`.
    """
    signs = sorted({sign for one in RENDERERS.values() for sign in one.files[:1]}, key=len, reverse=True)
    found: dict[str, int] = {}
    for path in paths:
        sign = next((sign for sign in signs if f"/{path}".endswith(f"/{sign}")), None)
        if sign is not None:
            folder = path.removesuffix(sign).rstrip("/") or "."
            found[folder] = max(len(sign), found.get(folder, 0))
    surest = max(found.values(), default=0)
    return sorted(
        (folder for folder, length in found.items() if length == surest),
        key=lambda one: (one.count("/"), one),
    )


Place: TypeAlias = tuple[str, Tile]
"""A layer's name and a tile of it."""


class NoTilesError(SiteError):
    """A snapshot has none of the tiles that the map keeps."""


@dataclass(frozen=True, slots=True)
class SnapshotSite:
    """A snapshot as a site that answers at once. Outcomes follow the rules of a harvest
    (`tiles/verdict.py`)."""

    description: MapDescription
    snapshot: Snapshot
    site: Site
    layers: Mapping[str, LayerWalk]
    looked_at: frozenset[str]
    """The files that the renderer has read or looked for, missing ones included: what it says may change once
    they exist."""
    files: Mapping[str, SiteFile]
    """The files that the renderer has read, by address."""

    @classmethod
    async def read(
        cls, description: MapDescription, snapshot: Snapshot, probing: Probe = probe
    ) -> SnapshotSite:
        """Reads the layers of a snapshot with the function `probing`, as it reads those of a site.

        Raises UnrecognisedError if there is no map, SiteError if it cannot be read, and ConfigurationError if
        the map's entry in maps.toml does not fit.
        """
        looked_at: set[str] = set()
        files: dict[str, SiteFile] = {}

        async def fetch(method: str, url: str) -> Fetched:
            """Answers as a plain file server at the map's address would."""
            path = path_of(url, description.page)
            if path is None:
                return Fetched(404, b"", url)
            looked_at.add(path)
            if path not in snapshot.paths:
                return Fetched(404, b"", url)
            if method == "HEAD":
                return Fetched(200, b"", url)
            (body,) = snapshot.read([path])
            refuse_pointer(body, path, snapshot.name)
            files[url] = SiteFile(snapshot.validator(path), body)
            return Fetched(200, body, url)

        try:
            site = await probing(description, fetch)
        except UnrecognisedError:
            # The renderer's own words are about a site and its address, and no site was asked.
            strange = ", ".join(
                sorted(path for path in looked_at if path in snapshot.paths and path != "index.html")
            )
            why = f"no renderer writes {strange} as it is there" if strange else NO_SIGN
            raise UnrecognisedError(why) from None
        sized = [_sized(layer, snapshot, description.page) for layer in site.layers]
        layers = {layer.name: LayerWalk(layer, walk_over(description, layer)) for layer in sized}
        return cls(description, snapshot, site, layers, frozenset(looked_at), files)

    def path(self, place: Place) -> str | None:
        """Returns a tile's path in the snapshot, or None if it has none: its address leads elsewhere, or the
        tile lies outside of the layer."""
        name, tile = place
        try:
            return path_of(self.layers[name].layer.addresses.url_of(tile), self.description.page)
        except ValueError:
            return None

    def has(self, place: Place) -> bool:
        """Returns whether there is a file for the tile, whatever its content."""
        return self.path(place) in self.snapshot.paths

    def place(self, path: str) -> Place | None:
        """Returns the tile of the file at this path, or None for a file that is not a tile."""
        url = _address(self.description.page, path)
        for name, part in self.layers.items():
            if (tile := part.layer.addresses.tile_of(url)) is not None:
                return name, tile
        return None

    def places(self, paths: Iterable[str]) -> Iterator[Place]:
        """Yields the tiles among the files at these paths."""
        return (place for path in paths if (place := self.place(path)) is not None)

    def kept(self, layer: str) -> Sequence[TileRange]:
        """Returns the areas of a layer that the map keeps, by its zooms and zones."""
        return self.layers[layer].walk.kept()

    def is_kept(self, place: Place) -> bool:
        """Returns whether the map keeps a tile of these layers."""
        return any(place[1] in area for area in self.kept(place[0]))

    def no_tiles(self) -> NoTilesError:
        """Returns the error for a snapshot with none of the tiles that the map keeps."""
        starts = ((name, tile) for name, part in self.layers.items() for tile in part.walk.start())
        first = next(filter(None, map(self.path, starts)), None)
        example = f", such as {first}" if first else ""
        return NoTilesError(
            f"{self.snapshot.name} has none of the tiles that map '{self.description.name}' keeps{example}"
        )

    def unread(self, latest: Mapping[Place, Version | None]) -> list[Place]:
        """Returns those of the tiles whose files `judged` has to read, given their latest versions."""
        return [place for place, version in latest.items() if self._at_first_sight(place, version) is None]

    def judged(
        self, latest: Mapping[Place, Version | None], day: date
    ) -> tuple[dict[Place, Verdict], dict[Image, bytes]]:
        """Returns the verdict on each tile, given its latest version, and the bytes of new images.

        Only files that may have changed are read, all together. Raises SiteError, also for a pointer of Git
        LFS in place of an image.
        """
        first = {place: self._at_first_sight(place, version) for place, version in latest.items()}
        verdicts = {place: verdict for place, verdict in first.items() if verdict is not None}
        unread, images = [place for place in latest if place not in verdicts], {}
        bodies = self.snapshot.read([self.path(place) or "" for place in unread])
        for place, body in zip(unread, bodies, strict=True):
            verdict = verdicts[place] = self._judged(place, latest[place], body, day)
            if verdict.image is not None:
                images[verdict.image] = body
        return verdicts, images

    def _at_first_sight(self, place: Place, latest: Version | None) -> Verdict | None:
        """Returns the verdict on a tile, or None if its file must be read for that."""
        path, answer = self.path(place), Answer(404)
        if path is not None and path in self.snapshot.paths:
            answer = self._understood(Answer(200, self.snapshot.validator(path)))
            if answer.validator.etag is None:
                return None
        return judge_head(answer, latest)

    def _judged(self, place: Place, latest: Version | None, body: bytes, day: date) -> Verdict:
        path, layer = self.path(place) or "", self.layers[place[0]].layer
        refuse_pointer(body, path, self.snapshot.name)
        answer = Answer(200, self.snapshot.validator(path), len(body), body)
        size = layer.tile_size if layer.tells_size else None
        most = self.description.most_tile_bytes
        return judge_get(self._understood(answer), latest, day, size, most)

    def _understood(self, answer: Answer) -> Answer:
        renderer = renderer_named(self.site.renderer)
        return unless_blank(renderer.understood(answer), self.description.blank)


def _sized(layer: Layer, snapshot: Snapshot, page: str) -> Layer:
    """Returns a layer whose site does not say how large its tiles are with the size of one of its images."""
    if layer.tells_size:
        return layer
    tile_of = layer.addresses.tile_of
    of_layer = (path for path in snapshot.paths if tile_of(_address(page, path)) is not None)
    for body in snapshot.read(list(islice(of_layer, 1))):
        with suppress(ValueError):
            return replace(layer, tile_size=size_of(body), tells_size=True)
    return layer
