"""The named areas of a map that have changed on a day. Only reads the history."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError
from tileharvest.history.area_changes import changed_in, place_of, view_of
from tileharvest.history.schema import BLOCK_LEVELS
from tileharvest.notices.places import view_around

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.history.outlines import MapOutline
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.tiles.grid import Tile, TileRange
    from tileharvest.tiles.layers import Size

_logger = logging.getLogger(__name__)

_MOST_VIEWS: Final = 15
"""The most places of an area that are searched for a visible difference."""


@dataclass(frozen=True, slots=True)
class ChangedArea:
    """A named area in which tiles changed."""

    name: str
    count: int
    """The number of changed tiles of the layer's deepest zoom in the area."""
    layer: str
    x: float
    """The middle of the area, in the coordinates of the viewer's addresses."""
    z: float
    zoom: float
    """The zoom at which a screen shows the whole area."""
    views: tuple[tuple[int, TileRange, Size], ...]
    """The places with most changed tiles: each a layer's id, 2 x 2 to 4 x 4 tiles, and the size of a tile."""


def changed_areas(
    history: History, outline: MapOutline, day: date, areas: Sequence[NamedArea]
) -> list[ChangedArea]:
    """Returns the areas that changed on that day, in the order of the file.

    An area that is not on the map, or whose layer the history does not have, is left out with a warning in
    the log. Raises HistoryError.
    """
    found = []
    for area in areas:
        try:
            layer, rectangle = place_of(area, outline)
            tiles = changed_in(history, layer, rectangle, day).get(day, [])
        except ConfigurationError as error:
            _logger.warning("area '%s' of map '%s' is left out: %s", area.name, outline.name, error)
            continue
        if tiles:
            size = layer.described(day).tile_size
            views = tuple((layer.id, view, size) for view in _views(tiles))
            found.append(ChangedArea(area.name, len(tiles), layer.name, *view_of(layer, rectangle), views))
    return found


def _views(tiles: Sequence[Tile]) -> Iterator[TileRange]:
    """Yields a view of each block of 8 x 8 tiles that has changed tiles, those with most of them first."""
    blocks: defaultdict[Tile, list[Tile]] = defaultdict(list)
    for tile in tiles:
        blocks[tile.ancestor(BLOCK_LEVELS)].append(tile)
    for changed in sorted(blocks.values(), key=len, reverse=True)[:_MOST_VIEWS]:
        yield view_around(changed)
