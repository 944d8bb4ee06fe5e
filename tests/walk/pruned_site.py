"""A map's site, imagined: a pyramid of files that obeys the law of the pruned walk, or does not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import sha1
from itertools import count
from typing import TYPE_CHECKING

from tileharvest.tiles.grid import Tile, tile_at
from tileharvest.tiles.versions import Image, Validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from random import Random

BEGINNING = datetime(2021, 2, 13, tzinfo=UTC)
HOUR = 3600


@dataclass(frozen=True)
class File:
    drawing: int
    """The number of the bytes. Each drawing has a size of its own."""
    time: int
    """The time of the file, in seconds."""

    @property
    def image(self) -> Image:
        return Image(sha1(str(self.drawing).encode()).hexdigest(), "png", self.drawing)


def by_time_and_size(file: File) -> Validator:
    """The validator that nginx makes of the file."""
    return Validator(f'"{file.time:x}-{file.drawing:x}"', http_date(file.time))


def by_content(file: File) -> Validator:
    return Validator(f'"{file.drawing}"', http_date(file.time))


def by_time_alone(file: File) -> Validator:
    return Validator(None, http_date(file.time))


def http_date(seconds: int) -> str:
    return format_datetime(BEGINNING + timedelta(seconds=seconds), usegmt=True)


@dataclass
class Site:
    """A pyramid of files on a server. A leaf is at zoom 0, and everything above one is there."""

    depth: int
    says: Callable[[File], Validator] = by_time_and_size
    files: dict[Tile, File] = field(default_factory=dict)
    now: int = 0
    _backup: tuple[int, dict[Tile, File]] = (0, {})
    _drawings: Iterator[int] = field(default_factory=lambda: count(1))

    def publish(self, leaves: Mapping[Tile, bool]) -> set[Tile]:
        """A lawful step: leaves are drawn anew or (False) removed, and all above them drawn anew."""
        touched = self._set(leaves, self.now)
        self._draw_above(leaves)
        return touched | {above for leaf in leaves for above in self.above(leaf)}

    def publish_unlawfully(self, leaves: Mapping[Tile, bool], time: int) -> None:
        """Draws only the leaves anew. Tiles above a new leaf are drawn if they are missing."""
        self._set(leaves, time)
        for leaf in [leaf for leaf, stays in leaves.items() if stays]:
            for above in self.above(leaf):
                if above not in self.files:
                    self.files[above] = File(next(self._drawings), time)

    def back_up(self) -> None:
        self._backup = (self.depth, dict(self.files))

    def restore(self) -> None:
        """Puts a backup back, times and all, unless the map has grown since."""
        depth, files = self._backup
        if depth == self.depth:
            self.files = dict(files)

    def redate(self) -> None:
        """Uploads the map so that every file gets the present time."""
        self.files = {tile: replace(file, time=self.now) for tile, file in self.files.items()}

    def grow(self) -> None:
        """Lets the map grow by one level. All tiles keep their names and files."""
        tops = [tile for tile in self.files if tile.zoom == 1 - self.depth]
        self.depth += 1
        for top in {tile.parent() for tile in tops}:
            self._draw(top)

    def above(self, tile: Tile) -> Iterator[Tile]:
        """Yields the tiles from the tile's parent up to the first level."""
        return (tile.ancestor(levels) for levels in range(1, self.depth + tile.zoom))

    def _set(self, leaves: Mapping[Tile, bool], time: int) -> set[Tile]:
        for leaf, stays in leaves.items():
            if stays:
                self.files[leaf] = File(next(self._drawings), time)
            else:
                self.files.pop(leaf, None)
        return set(leaves)

    def _draw_above(self, leaves: Iterable[Tile]) -> None:
        for above in sorted({above for leaf in leaves for above in self.above(leaf)}, reverse=True):
            self._draw(above)

    def _draw(self, above: Tile) -> None:
        """Draws a tile with the time of its newest child, or removes it if it has none."""
        times = [self.files[child].time for child in above.children() if child in self.files]
        if times:
            self.files[above] = File(next(self._drawings), max(times))
        else:
            self.files.pop(above, None)


def leaf(number: int, depth: int) -> Tile:
    """One of the leaves that a site of this depth can have."""
    digits = [str(number >> 2 * k & 3) for k in range(depth)]
    return tile_at("/" + "/".join(digits), depth)


def built(depth: int, random: Random, leaves: int = 30) -> Site:
    """A site of some renders, hours apart."""
    site = Site(depth)
    for _ in range(4):
        site.now += 5 * HOUR
        site.publish({leaf(random.randrange(1024), depth): True for _ in range(leaves // 4 + 1)})
    return site
