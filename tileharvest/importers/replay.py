"""The replay of a map's past: what a harvest would have found in each snapshot."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from tileharvest.errors import MovedError
from tileharvest.importers.snapshot_site import Front, NoTilesError, SnapshotSite
from tileharvest.tiles.outcomes import THERE, Outcome
from tileharvest.tiles.versions import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from tileharvest.importers.snapshot import Snapshot
    from tileharvest.importers.snapshot_site import Place
    from tileharvest.maps.description import MapDescription
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.results import TileResult
    from tileharvest.tiles.versions import Image

_AT_ONCE: Final = 256
"""The number of tiles that are judged together. Their bytes are in memory at the same time: 10 MB if each has
40 KB."""
_MOST_SAMPLES: Final = 30
"""The most levels of a layer at which a tile is looked at to compare two states of the layer."""

_SILENT: Final = frozenset({Outcome.NOTHING, Outcome.IGNORED, Outcome.NOT_MODIFIED})
"""The outcomes that change nothing. They are not recorded, because each of an import's many days would write
a row for every tile."""


def _form(found: SnapshotSite) -> tuple[object, ...]:
    """Returns a value that decides which file is which tile. As long as it stays the same, the layers need
    not be walked again."""
    layers: list[object] = []
    for name, (layer, walk) in found.layers.items():
        samples = []
        tiles: Iterable[Tile] = walk.start()
        for _ in range(_MOST_SAMPLES):
            tile = next(iter(tiles), None)
            if tile is None:
                break
            samples.append((tile, found.path((name, tile))))
            tiles = walk.below(tile, Outcome.IGNORED, known=True)
        layers.append((name, layer.pyramid, layer.image_extension, tuple(samples)))
    return tuple(layers)


class Replay:
    """Replays the snapshots of one map in the order of their days. Keeps about 1 KB for each tile in memory.

    A snapshot is walked as a harvest walks a site, so that the same tiles are found. A file to which no walk
    leads is no part of the map. After the first snapshot only changed files are looked at, unless the map has
    grown.
    """

    def __init__(
        self,
        description: MapDescription,
        latest: Mapping[Place, Version],
        store: Callable[[Image, bytes], object],
    ) -> None:
        """`latest` are the latest versions that the history has by the first snapshot's day. `store` takes
        each new image with its bytes."""
        self._description = description
        self.latest = dict(latest)
        """The latest version of each tile so far, from the history and from the snapshots."""
        self.present = Counter(layer for (layer, _), version in latest.items() if not version.gone)
        """The number of existing tiles of each layer, by these versions."""
        self._store = store
        self._there: set[Place] = set()
        """The tiles that a walk has found in the last snapshot."""
        self._last: SnapshotSite | None = None
        self._form: tuple[object, ...] | None = None
        self._is_behind = True
        """Whether the last snapshot was not walked to its end. The next one is then walked in full."""

    async def advance(
        self, snapshot: Snapshot, changed: set[str] | None, day: date
    ) -> tuple[SnapshotSite, list[TileResult]]:
        """Returns the snapshot as a site, and the results of all tiles that have changed or cannot be read.
        Their images were handed to the store, and the results have no bytes.

        `changed` are the paths whose bytes may differ from the last
        snapshot; None means that all may.

        Raises SiteError if the map cannot be read, NoTilesError if neither the snapshot nor the history has a
        tile, and MovedError if more than half of the known tiles are missing; none of them counts as gone
        then. After an error the next snapshot is compared with the last one that was read.
        """
        last, is_behind = self._last, self._is_behind
        self._is_behind = True
        if last is None or changed is None or not changed.isdisjoint(last.looked_at):
            found = await SnapshotSite.read(self._description, snapshot)
        else:
            found = replace(last, snapshot=snapshot)
        form = self._form if found.layers is getattr(last, "layers", None) else _form(found)
        self._last = None
        if is_behind or changed is None or form != self._form:
            self._there = set()
            front, known = Front(found.layers), list(self._known(found))
            front.add(found.start())
        else:
            front, known = self._where_changed(found, changed), []
        self._refuse_moved(found, known or filter(self._is_present, front.waiting()))
        results = self._walked(found, front, known, day)
        if not results and not self.present.total():
            raise NoTilesError(found)
        self._last, self._form, self._is_behind = found, form, False
        return found, results

    def _known(self, found: SnapshotSite) -> Iterator[Place]:
        """Yields all tiles of the snapshot's layers whose latest version is not gone."""
        return (place for place in self.latest if place[0] in found.layers and self._is_present(place))

    def _where_changed(self, found: SnapshotSite, changed: Iterable[str]) -> Front:
        there = self._there

        def wants(place: Place) -> bool:
            return place not in there and found.has(place)

        places = [place for place in map(found.place, changed) if place is not None]
        # Coarse tiles come first, because new tiles above lead to new tiles below.
        places.sort(key=lambda place: place[1].zoom)
        front = Front(found.layers, wants)
        front.add(place for place in places if self._is_reached(found, place))
        return front

    def _is_reached(self, found: SnapshotSite, place: Place) -> bool:
        """Returns whether a walk reaches a changed tile: the tile is known, or a parent or a neighbour leads
        to it."""
        name, tile = place
        walk = found.layers[name].walk
        if place in self._there or self._is_present(place):
            return True
        if tile.zoom == walk.top:
            beside = walk.beside(tile, Outcome.IGNORED, known=True) if walk.goes_sideways else ()
            return tile in walk.start() or any((name, one) in self._there for one in beside)
        return tile.zoom > walk.top and (name, walk.pyramid.parent(tile)) in self._there

    def _is_present(self, place: Place) -> bool:
        version = self.latest.get(place)
        return version is not None and not version.gone

    def _refuse_moved(self, found: SnapshotSite, asked: Iterable[Place]) -> None:
        known = sum(number for layer, number in self.present.items() if layer in found.layers)
        missing = sum(not found.has(place) for place in asked)
        if missing > known / 2:
            raise MovedError(
                f"{missing} of the {known} tiles known of map '{self._description.name}' are missing in"
                f" {found.snapshot.name}: the map has moved rather than vanished"
            )

    def _walked(
        self, found: SnapshotSite, front: Front, known: Sequence[Place], day: date
    ) -> list[TileResult]:
        """Walks until nothing is left, and then looks at the tiles of `known` that it has not reached,
        because a tile above them has vanished. Returns the results that are recorded."""
        results: list[TileResult] = []
        if not front:
            front.add(known)
        while places := front.take(_AT_ONCE):
            latest = [self.latest.get(place) for place in places]
            for result in found.results(places, latest, day):
                place = (result.layer, result.tile)
                front.answered(place, result.outcome, known=self._is_present(place))
                if result.outcome in THERE:
                    self._there.add(place)
                elif result.outcome is not Outcome.FAILED:
                    self._there.discard(place)
                if result.is_counted:
                    results += self._kept(result)
            if not front:
                front.add(known)
        for result in results:
            if result.outcome.makes_version:
                self._apply(result, day)
        return results

    def _apply(self, result: TileResult, day: date) -> None:
        place = (result.layer, result.tile)
        before, version = self._is_present(place), _version(result, day)
        self.present[result.layer] += (not version.gone) - before
        self.latest[place] = version

    def _kept(self, result: TileResult) -> list[TileResult]:
        if result.outcome in _SILENT:
            return []
        if result.image is None:
            return [result]
        assert result.body is not None
        self._store(result.image, result.body)
        return [msgspec.structs.replace(result, body=None)]


def _version(result: TileResult, day: date) -> Version:
    if result.image is None:
        return Version(day, None)
    assert result.validator is not None
    return Version(day, result.image, result.validator)
