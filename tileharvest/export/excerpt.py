"""Excerpts: the part of a map, and the day or period, that an export shows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Final, NamedTuple

from tileharvest.errors import ConfigurationError, HistoryError, nearest, program
from tileharvest.history.area_changes import rectangle_of
from tileharvest.history.changes import block_places
from tileharvest.history.outlines import map_outline
from tileharvest.history.recorded_versions import reach
from tileharvest.history.schema import BLOCK_LEVELS
from tileharvest.pictures.composer import PastLayer
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import Ground
from tileharvest.tiles.pyramid import EVERYWHERE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.tiles.layers import Layer, Size

_SQUARE: Final = 6
"""The levels of a square of 64 x 64 tiles."""
WHOLE: Final = "whole"
"""The word that a person writes for the whole map."""

_NUMBER: Final = r"(-?\d{1,8}(?:\.\d{1,9})?)"
_CORNERS: Final = re.compile(rf"{_NUMBER}[ ,]+{_NUMBER}[ ,:]+{_NUMBER}[ ,]+{_NUMBER}", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_COMPOSED: Final = 8
"""The number of zooms above the coarsest zoom with images that are composed: 256 tiles in a row become
one."""


class PixelBox(NamedTuple):
    """A rectangle of pixels of one zoom. Pixels are counted to the right and down from the grid's origin."""

    left: int
    top: int
    right: int
    """The first column that does not belong to it."""
    bottom: int
    """The first line that does not belong to it."""

    @classmethod
    def of(cls, ground: Ground, zoom: int, factor: int, size: tuple[int, int]) -> PixelBox:
        """Returns the pixels of a zoom that show part of the ground.

        `size` is a tile's width and height, and `factor` that of the layer's pyramid.
        """
        area, (width, height) = ground.tiles(zoom, factor), size
        first, _ = area.corners
        x, y = first.column * width, first.row * height
        left, top, right, bottom = ground.pixels(zoom, size, factor)
        return cls(x + left, y + top, x + right, y + bottom)

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def height(self) -> int:
        return self.bottom - self.top

    def tiles(self, zoom: int, size: tuple[int, int]) -> TileRange:
        """Returns the tiles of a zoom that have pixels in the box."""
        width, height = size
        return TileRange.between(
            Tile.at(zoom, self.left // width, self.top // height),
            Tile.at(zoom, (self.right - 1) // width, (self.bottom - 1) // height),
        )


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a layer on a day, or in a period of days."""

    history: History
    map: MapOutline
    layer: LayerOutline
    ground: Ground | None
    """The rectangle of the excerpt, or None for the whole map."""
    first: date
    """The first day. It equals `last` if the excerpt is of one day."""
    last: date
    _extents: dict[tuple[int, TileRange], TileRange | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The answers of `extent`, each of which takes seconds for a large map."""

    @property
    def described(self) -> Layer:
        """The site's description of the layer on the last day."""
        return self.layer.described(self.last)

    @property
    def tile_size(self) -> Size:
        return self.described.tile_size

    def past(self, zoom: int, day: date | None = None) -> PastLayer | None:
        """Returns the layer as it was on a day, by default the last one, for pictures of this zoom.

        Returns None if the layer had no images of this zoom or a deeper one by that day."""
        of_day = self.last if day is None else day
        return PastLayer.of(self.history, self.map, self.layer, of_day, zoom, self.tile_size)

    def zooms(self) -> Sequence[int]:
        """Returns the zooms of which there can be pictures on the last day, deepest first.

        No zoom is deeper than those of the first day, if there were any: otherwise everything in it would be
        new. If tiles nest by two, some zooms above the coarsest zoom with images are composed.
        """
        kept = self.layer.kept_zooms(self.first) or self.layer.kept_zooms(self.last)
        every = range(kept[-1], kept[0] - _COMPOSED - 1, -1) if self.layer.factor == 2 else kept[::-1]
        return [zoom for zoom in every if self.layer.source_zoom(zoom, self.last) is not None]

    def box(self, zoom: int) -> PixelBox | None:
        """Returns the pixels of a zoom that belong to the excerpt, or None if no tile was there.

        The whole map reaches as far as its tiles of the first day, and of all days after it until the last.
        A coarse tile also shows ground on which nothing is, so the deepest tiles say how far it reaches,
        unless coarse tiles lie beyond all of them: then deeper tiles are missing there. Raises HistoryError.
        """
        factor, ground = self.layer.factor, self.ground
        deepest = self.layer.kept_zooms(self.last)[-1]
        if ground is not None:
            # A coarser tile also shows ground outside of the area.
            is_any = self.extent(deepest, ground.tiles(deepest, factor)) is not None
        else:
            deep, there = self.extent(deepest), self.extent(zoom)
            is_any = there is not None
            if there is not None:
                is_whole = deep is not None and deep.at_zoom(there.zoom, factor) == there
                ground = Ground.of(deep if deep is not None and is_whole else there, factor)
        return PixelBox.of(ground, zoom, factor, self.tile_size) if ground is not None and is_any else None

    def extent(self, zoom: int, area: TileRange = EVERYWHERE) -> TileRange | None:
        """Returns the smallest area of all images in an area on any of the excerpt's days, of which a picture
        of this zoom is made, or None if there were none. Raises HistoryError."""
        source, factor = self.layer.source_zoom(zoom, self.last), self.layer.factor
        if source is None:
            return None
        if (source, area) not in self._extents:
            place = self.history, self.layer.id, area.at_zoom(source, factor)
            found = reach(*place, self.first, self.last)
            self._extents[source, area] = None if found is None else found.area
        return self._extents[source, area]

    def in_words(self) -> str:
        """Returns a text such as `world, layer day, 2021-02-13`."""
        when = f"{self.last}" if self.first == self.last else f"{self.first} to {self.last}"
        if self.last in self.map.unfinished:
            when += ", of which the harvest is not finished"
        return f"{self.map.name}, layer {self.layer.name}, {when}"


def excerpt_of(
    history: History,
    map_name: str,
    named: Mapping[str, NamedArea] | None = None,
    *,
    layer: str | None = None,
    area: str | None = None,
    day: str | None = None,
    first: str | None = None,
    is_period: bool = False,
) -> Excerpt:
    """Returns the excerpt of a map that a person wants, by options as they are written on the command line.

    `named` are the map's named areas. `day` is the day, or the last one of a period that begins with the map
    as it was on the `first` day. If it `is_period`, it is of all days by default. Raises HistoryError for a
    map without a history, and ConfigurationError for a layer, a day or an area that the map does not have.
    """
    outline, areas = map_outline(history, map_name), named or {}
    to = day_of(outline, day)
    usual = outline.days[0] if is_period else to
    begin = usual if first is None else day_of(outline, first)
    if begin > to:
        raise ConfigurationError(f"the first day, {begin}, is later than the last, {to}")
    own = areas.get(area or "")
    chosen = _layer(outline, layer or (own.layer if own else None))
    if not chosen.kept_zooms(to):
        raise ConfigurationError(f"layer '{chosen.name}' of map '{map_name}' had no tile yet on {to}")
    ground = _ground(area, outline, chosen, chosen.described(to), areas)
    return Excerpt(history, outline, chosen, ground, begin, to)


def areas_with_tiles(history: History, layer: LayerOutline, source: int, zoom: int) -> list[TileRange]:
    """Returns areas of a zoom that together have all tiles of the layer, or all that can be composed of the
    deeper zoom `source`. Each has at most 64 x 64 tiles of the source, for which the history is asked at
    once. Raises HistoryError."""
    blocks = (Tile(source - BLOCK_LEVELS, *place) for place in block_places(history, layer.id, source))
    squares = sorted({block.ancestor(_SQUARE - BLOCK_LEVELS) for block in blocks})
    # The history's blocks follow columns and rows alone, however tiles nest.
    return list(dict.fromkeys(TileRange.of(square).at_zoom(source).at_zoom(zoom) for square in squares))


def nothing_there(excerpt: Excerpt) -> ConfigurationError:
    """Returns the error for an area without a tile. It says how far the map reaches."""
    there, projection = excerpt.extent(excerpt.zooms()[0]), excerpt.described.projection
    reach = ""
    if there is not None and projection is not None:
        places = Ground.of(there, excerpt.layer.factor).places(projection)
        reach = "; the map reaches from {},{} to {},{}".format(*map(round, places))
    return ConfigurationError(
        f"{excerpt.in_words()}: nothing was there in this area; nothing was made{reach}"
    )


def zooms_between(zooms: Sequence[int], text: str | None) -> list[int]:
    """Returns the zooms that a person has chosen. `zooms` are all zooms, coarsest first.

    The text may be `-5..0`, also with one of the zooms left out, or a single zoom. None means all zooms.
    Raises ConfigurationError for any other text, and if no zoom is left.
    """
    if text is None:
        return list(zooms)
    found = re.fullmatch(r"(0|-\d{1,2})?(\.\.)?(0|-\d{1,2})?", text, re.ASCII)
    if found is None or not (found[1] or found[3]) or (found[1] and found[3] and not found[2]):
        raise ConfigurationError(f"--zooms {text} cannot be: write the zooms as -5..0")
    begin = int(found[1]) if found[1] else zooms[0]
    end = int(found[3]) if found[3] else (zooms[-1] if found[2] else begin)
    chosen = [zoom for zoom in zooms if begin <= zoom <= end]
    if not chosen:
        raise ConfigurationError(f"--zooms {text}: there are {zooms[0]} to {zooms[-1]}; nothing was made")
    return chosen


def _layer(outline: MapOutline, name: str | None) -> LayerOutline:
    if name is None:
        return outline.layers[0]
    layer = outline.layer(name)
    if layer is None:
        names = [one.name for one in outline.layers]
        hint = nearest(name, names, f"it has {', '.join(names)}")
        raise ConfigurationError(f"map '{outline.name}' has no layer '{name}'; {hint}")
    return layer


def day_of(outline: MapOutline, text: str | None) -> date:
    """Returns the day that a person has written, or the day of the last harvest if the text is None, or if it
    is a later day, of which nothing is known.

    Raises ConfigurationError for a text that is not a day, and for a day before the first harvest. Raises
    HistoryError for a map that was never harvested.
    """
    if not outline.days:
        raise HistoryError(
            f"map '{outline.name}' was never harvested: `{program()} harvest` begins its history"
        )
    if text is None:
        return outline.days[-1]
    try:
        day = date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        day = None
    if day is None:
        raise ConfigurationError(f"{text} is not a day: write it as {outline.days[-1]}")
    if day < outline.days[0]:
        raise ConfigurationError(
            f"{day} is before the history of map '{outline.name}', which begins on {outline.days[0]}"
        )
    return min(day, outline.days[-1])


def _ground(
    text: str | None,
    outline: MapOutline,
    layer: LayerOutline,
    described: Layer,
    named: Mapping[str, NamedArea],
) -> Ground | None:
    if text is None or text == WHOLE:
        return None
    if text in named:
        corners, its = named[text].corners, layer.latest
    elif (found := _CORNERS.fullmatch(text.strip())) is not None:
        first, second, third, fourth = map(float, found.groups())
        corners, its = ((first, second), (third, fourth)), described
    else:
        example = "write two corners in blocks, such as --area=-100,-50,100,50"
        hint = nearest(text, [*named, WHOLE], example)
        raise ConfigurationError(f"--area {text} is not an area; {hint}")
    try:
        places = rectangle_of(corners, its, outline.renderer)
    except ValueError as error:
        raise ConfigurationError(f"--area {text} cannot be: {error}") from None
    return Ground.of_places(places, its.projection)
