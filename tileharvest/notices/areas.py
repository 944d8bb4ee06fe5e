"""Which named areas of a map have changed on a day. Reads the history only."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError
from tileharvest.history.area_changes import changed_in, rectangle_of_area, screen_zoom
from tileharvest.history.outlines import map_outline
from tileharvest.history.schema import BLOCK_LEVELS
from tileharvest.notices.places import best_view
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.tiles.layers import Size

_logger = logging.getLogger(__name__)

_MOST_VIEWS: Final = 15
"""Places of an area that are looked at for a difference that can be seen."""


@dataclass(frozen=True, slots=True)
class ChangedArea:
    """A named area in which tiles changed."""

    name: str
    count: int
    """How many tiles of the layer's deepest zoom changed in it."""
    layer: str
    x: float
    """The middle of the area, as addresses of the viewer have it."""
    z: float
    zoom: float
    """The zoom of a screen that shows all of it."""
    views: tuple[tuple[int, TileRange, Size], ...]
    """Where in it most changed: the layer's id, 2 x 2 to 4 x 4 tiles, and their size."""


def changed_areas(
    history: History, map_name: str, day: date, areas: Sequence[NamedArea]
) -> list[ChangedArea]:
    """Returns the areas that changed on that day, in the order of the file.

    One whose layer the history does not have is left out, and the log says so. Raises HistoryError for a map
    that the history does not have, and ConfigurationError for an area that cannot be on it.
    """
    outline = map_outline(history, map_name)
    layers = {layer.name: layer for layer in outline.layers}
    found = []
    for area in areas:
        layer = layers.get(area.layer)
        if layer is None:
            _logger.warning(
                "area '%s' of map '%s' is left out: the history has no layer '%s' of this map; add the area"
                " anew in another layer",
                area.name,
                map_name,
                area.layer,
            )
            continue
        try:
            rectangle = rectangle_of_area(area, layer, outline.renderer)
            tiles = changed_in(history, layer, rectangle, day).get(day, [])
        except ConfigurationError as error:
            _logger.warning("area '%s' of map '%s' is left out: %s", area.name, map_name, error)
            continue
        if tiles:
            x, z = rectangle.middle
            size = layer.described(day).tile_size
            views = tuple((layer.id, view, size) for view in _views(tiles))
            zoom = screen_zoom(layer, rectangle)
            # The page counts from the middle of a unit.
            found.append(ChangedArea(area.name, len(tiles), layer.name, x - 0.5, z - 0.5, zoom, views))
    return found


def _views(tiles: Sequence[Tile]) -> Iterator[TileRange]:
    """Yields views of blocks of 8 x 8 tiles in which tiles changed, those with most of them first."""
    blocks: defaultdict[Tile, list[Tile]] = defaultdict(list)
    for tile in tiles:
        blocks[tile.ancestor(BLOCK_LEVELS)].append(tile)
    for block, changed in sorted(blocks.items(), key=lambda one: -len(one[1]))[:_MOST_VIEWS]:
        around = TileRange.of(block).at_zoom(tiles[0].zoom).wider(2)
        yield best_view(changed, [tile for tile in tiles if tile in around], around)
