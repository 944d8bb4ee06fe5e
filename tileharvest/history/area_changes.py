"""Changes in a named area, counted of exactly the tiles that show it. Read only."""

from __future__ import annotations

from math import floor, log2
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, select

from tileharvest.errors import ConfigurationError
from tileharvest.history.areas import rows_in
from tileharvest.history.outlines import in_words
from tileharvest.history.schema import versions
from tileharvest.maps.regions import NORTHMOST
from tileharvest.renderers.xyz import is_on_earth, south_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Ground, shows

if TYPE_CHECKING:
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.tiles.ground import Places
    from tileharvest.tiles.layers import Layer

MOST_TILES: Final = 16_384
"""The most tiles of the upright rectangle around an area: 128 x 128 of the deepest zoom, which show a
town."""
_SCREEN: Final = 800
"""The width and height, in pixels, of the screen that an area is to fit into."""
_COARSEST: Final = -30
"""The page's coarsest zoom."""

_CHANGED: Final = (
    select(versions.c.day, versions.c.x, versions.c.y)
    .where(versions.c.day >= bindparam("since"))
    .order_by(versions.c.day)
)


def changed_in(history: History, layer: LayerOutline, places: Places, since: date) -> dict[date, list[Tile]]:
    """Returns the days from `since` on, in order, each with the tiles that have a version of that day.

    These are tiles of the layer's deepest zoom that show a part of the rectangle. Reads all versions since
    that day of the upright rectangle around it, from an index alone. Raises HistoryError, and
    ConfigurationError if the upright rectangle has more than `MOST_TILES` tiles.
    """
    found: dict[date, list[Tile]] = {}
    if not layer.zooms:
        return found
    zoom = max(layer.zooms)
    # The last projection is used for all days, so that an area has the same tiles on each of them.
    projection = layer.latest.projection
    around = Ground.of_places(places, projection).tiles(zoom, layer.factor)
    if len(around) > MOST_TILES:
        raise ConfigurationError(
            f"it needs {len(around):,} tiles, and {MOST_TILES:,} are the most: make it smaller, or several of"
            " it"
        )
    with history.reading() as connection:
        rows = rows_in(connection, versions, _CHANGED, layer.id, around, since=since)
    known: dict[tuple[int, int], bool] = {}
    for day, x, y in rows:
        tile = Tile(zoom, x, y)
        if (x, y) not in known:
            known[x, y] = shows(tile, places, projection, layer.factor)
        if known[x, y]:
            found.setdefault(day, []).append(tile)
    return found


def rectangle_of(
    corners: tuple[tuple[float, float], tuple[float, float]], layer: Layer, renderer: str | None
) -> Places:
    """Returns the rectangle between two corners, as people write them, in a layer that this renderer has
    drawn.

    A corner is x and z of a block, and both blocks belong to the rectangle. On a map of the earth it is
    latitude and longitude. If nothing is known of the world, it is in grid units, with z downwards. Raises
    ValueError if the map has no such rectangle.
    """
    (first, second), (third, fourth) = corners
    if is_on_earth(layer, renderer):
        if max(abs(first), abs(third)) > NORTHMOST:
            raise ValueError("the map ends at 85.05 degrees")
        north, south = south_of(max(first, third)), south_of(min(first, third))
        west, east = sorted((second, fourth))
        if west == east or north == south:
            raise ValueError("its corners are not a rectangle")
        return west, north, east, south
    (west, east), (north, south) = sorted((first, third)), sorted((second, fourth))
    return floor(west), floor(north), floor(east) + 1, floor(south) + 1


def place_of(area: NamedArea, outline: MapOutline) -> tuple[LayerOutline, Places]:
    """Returns the layer and the rectangle of a named area. Raises ConfigurationError if the map has no such
    layer or no such rectangle."""
    layer = outline.layer(area.layer)
    if layer is None:
        there = in_words([one.name for one in outline.layers])
        raise ConfigurationError(f"map '{outline.name}' has no layer '{area.layer}'; it has {there}")
    try:
        return layer, rectangle_of(area.corners, layer.latest, outline.renderer)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def view_of(layer: LayerOutline, places: Places) -> tuple[float, float, int]:
    """Returns x and z of the middle of an area, as the viewer's page has them in its addresses, and the
    deepest zoom at which a screen shows all of the area. The layer must have versions."""
    ground = Ground.of_places(places, layer.latest.projection)
    # At zoom 0 a tile is two grid units wide and high.
    width, height = layer.latest.tile_size
    pixels = max((ground.east - ground.west) / 2 * width, (ground.north - ground.south) / 2 * height)
    levels = floor(log2(_SCREEN / pixels) / log2(layer.factor))
    west, north, east, south = places
    # The page counts from the middle of a unit.
    x, z = (west + east - 1) / 2, (north + south - 1) / 2
    return x, z, min(max(layer.zooms), max(_COARSEST, levels))
