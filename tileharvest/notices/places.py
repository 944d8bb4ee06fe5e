"""Where a map has changed on a day. Reads the history only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tileharvest.history.changes import changed_blocks, heat
from tileharvest.history.outlines import map_outline
from tileharvest.history.schema import BLOCK_LEVELS
from tileharvest.renderers.xyz import Xyz, latitude_of
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.projection import ON_GRID

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline
    from tileharvest.tiles.layers import Size
    from tileharvest.tiles.projection import Projection

MOST_PLACES: Final = 5
_MORE: Final = 3
"""How many times as many places are looked at as are told of, because some show the same."""
_WIDEST: Final = 4
"""How many tiles across are shown of a place: with more of them little can be recognised."""


@dataclass(frozen=True, slots=True)
class ChangedPlace:
    """A block of 8 x 8 tiles in which tiles changed."""

    layer: str
    layer_id: int
    world: str | None
    """The layer's world, as the site names it."""
    tile: Tile
    """The smallest tile that covers all that changed in the block."""
    count: int
    """How many tiles of the layer's deepest kept zoom changed."""
    view: TileRange
    """2 x 2 to 4 x 4 tiles of that zoom, where most of the change is."""
    tile_size: Size
    x: float
    """The place in the middle of the view, as addresses of the viewer have it: a whole number for a block."""
    z: float
    zoom: float
    """The zoom of a screen that shows the view."""
    degrees: tuple[float, float] | None = None
    """Latitude and longitude of that place; None where it is a block of a world."""


def changed_places(
    history: History, map_name: str, day: date, limit: int = MOST_PLACES
) -> list[ChangedPlace]:
    """Returns the places of the map that changed most on that day, most first.

    A place that is seen in the view of another one is left out; so is the same ground in another layer.
    Raises HistoryError for a map that the history does not have. Goes to three places of an index per block
    of each layer's deepest zoom, and to the tiles of a few blocks.
    """
    outline = map_outline(history, map_name)
    on_earth = outline.renderer == Xyz.name
    found = [
        place
        for layer in outline.layers
        for place in _of_layer(history, layer, day, _MORE * limit, on_earth=on_earth)
    ]
    chosen: list[ChangedPlace] = []
    for place in sorted(found, key=lambda one: -one.count):
        if not any(_is_seen_with(place, other) for other in chosen):
            chosen.append(place)
    return chosen[:limit]


def _of_layer(
    history: History, layer: LayerOutline, day: date, limit: int, *, on_earth: bool
) -> Iterator[ChangedPlace]:
    if not layer.zooms:
        return
    zoom, before = max(layer.zooms), day - timedelta(days=1)
    described = layer.described(day)
    for found in changed_blocks(history, layer.id, zoom, before, day, limit):
        block = found.tile.ancestor(BLOCK_LEVELS)
        own = TileRange.of(block).at_zoom(zoom)
        around = own.wider(_WIDEST // 2)
        near = heat(history, layer.id, around, before, day)
        changed = [tile for tile in near if tile in own]
        view = best_view(changed, near, around)
        x, z, degrees = _place(described.projection, _ground(view, layer.factor), on_earth=on_earth)
        yield ChangedPlace(
            layer.name,
            layer.id,
            described.world,
            covering(changed),
            len(changed),
            view,
            described.tile_size,
            x,
            z,
            # Half the size: a screen of 800 pixels then shows four tiles of 384 across.
            zoom - 1 if layer.factor == 2 else zoom - 0.5,
            degrees,
        )


def _ground(view: TileRange, factor: int) -> tuple[float, float]:
    """Returns the middle of the view in grid units. Where tiles do not nest by two, names only count them."""
    x, y = view.middle
    widening = (factor / 2) ** -view.zoom
    return x * widening, y * widening


def _place(
    projection: Projection | None, point: tuple[float, float], *, on_earth: bool
) -> tuple[float, float, tuple[float, float] | None]:
    """Returns x and z of a point of the grid as addresses have them, and its degrees if it has any."""
    if projection is None or not on_earth:
        return *(projection or ON_GRID).block_at(*point), None
    east, south = projection.place_at(*point)
    # The page counts from the middle of a unit.
    return east - 0.5, south - 0.5, (latitude_of(south), east)


def _is_seen_with(place: ChangedPlace, other: ChangedPlace) -> bool:
    """Says whether the middle of the place's view lies in the other one's view."""
    (x, y), view = place.view.middle, other.view
    return place.world == other.world and view.x_from <= x <= view.x_to and view.y_from <= y <= view.y_to


def covering(tiles: Collection[Tile]) -> Tile:
    """Returns the smallest tile that covers all of these, which are of one zoom and one block."""
    for levels in range(BLOCK_LEVELS):
        above = {tile.ancestor(levels) for tile in tiles}
        if len(above) == 1:
            return above.pop()
    return next(iter(tiles)).ancestor(BLOCK_LEVELS)


def best_view(tiles: Collection[Tile], near: Collection[Tile], area: TileRange) -> TileRange:
    """Returns a square of 2 x 2 to 4 x 4 tiles of the area, with as many of `tiles` as possible.

    Of several such squares it is the one with the most tiles of `near`, which include `tiles`; and of several
    of those the one with `tiles` nearest to its middle. All tiles are of the area's zoom and lie in it. The
    area is at least four tiles wide.
    """
    changed = TileRange.covering(near)
    side = min(_WIDEST, max(2, len(changed.columns), len(changed.rows)))
    middle = sum(tile.x for tile in tiles) / len(tiles), sum(tile.y for tile in tiles) / len(tiles)

    def worth(view: TileRange) -> tuple[int, int, float]:
        x, y = view.middle
        off = abs(x - middle[0]) + abs(y - middle[1])
        return sum(tile in view for tile in tiles), sum(tile in view for tile in near), -off

    return max(area.squares(side), key=worth)
