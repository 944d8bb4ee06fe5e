"""The notice of a harvest that has ended: the places that have changed, with a picture, and its sending."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.history.area_changes import changed_in, place_of, view_of
from tileharvest.history.changes import changed_blocks, heat
from tileharvest.history.outlines import map_outline
from tileharvest.history.schema import BLOCK_LEVELS
from tileharvest.history.summaries import harvest_summaries
from tileharvest.notices.delivery import deliver
from tileharvest.notices.message import compose, is_wanted
from tileharvest.pictures.scenes import change_picture
from tileharvest.renderers.xyz import page_place
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import Ground

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import date

    from tileharvest.history.costs import Cost
    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.notices.delivery import Wishes
    from tileharvest.notices.message import Report
    from tileharvest.store.port import TileStore

_logger = logging.getLogger(__name__)

MOST_PLACES: Final = 5
_MORE: Final = 3
"""How many times as many places are looked at as are named, because some show the same ground."""
_WIDEST: Final = 4
"""The most tiles across a view. On more tiles little can be recognised."""
_MOST_VIEWS: Final = 15
"""The most places of an area that are searched for a visible difference."""
_UNREAD: Final = (
    "The history could not be read just now, so it is not known whether a watched area has changed. Nothing"
    " is lost."
)
_LEAST: Final = 3.0
"""The least seconds for sending, however long the history took."""


@dataclass(frozen=True, slots=True)
class ChangedPlace:
    """A place with changed tiles: a block of 8 x 8 tiles, or a named area."""

    layer: str
    count: int
    """The number of changed tiles of the layer's deepest kept zoom."""
    views: tuple[TileRange, ...]
    """Squares of 2 x 2 to 4 x 4 tiles of that zoom around the changed tiles, those with most of them first. A
    block has one."""
    x: float
    """The middle of the place, in the coordinates of the viewer's addresses. A block of a world has whole
    numbers."""
    z: float
    zoom: float
    """The zoom at which a screen shows the place."""
    area: str = ""
    """The name of the area. Empty for a block."""
    tile: Tile | None = None
    """The smallest tile that covers all changed tiles of the block. None for an area."""
    degrees: tuple[float, float] | None = None
    """Latitude and longitude of the block. None for a block of a world, and for an area."""


def send_notice(
    report: Report,
    segment: str,
    wishes: Wishes,
    open_history: Callable[[], History],
    open_store: Callable[[], TileStore],
    patience: float,
) -> list[str]:
    """Sends the notice of a harvest that has ended. Returns the targets that did not get it, with the
    reasons.

    If areas are watched, a change elsewhere does not count. If the history cannot be read, any change is an
    occasion, because it may lie in an area. Parts that cannot be read are left out: the message is always
    sent. Blocks for up to `patience` seconds, and uses the network.
    """
    until = time.monotonic() + patience
    places: list[ChangedPlace] = []
    picture: bytes | None = None
    is_read = False
    """Whether it is known which areas have changed."""
    with suppress(TileHarvestError), open_history() as history:
        report = replace(report, cost=_cost(history, report.map, segment))
        outline = map_outline(history, report.map)
        if report.changed and wishes.areas is not None:
            places = changed_areas(history, outline, report.day, wishes.areas)
        elif report.changed:
            places = changed_places(history, outline, report.day)
        is_read = True
        views = [(place.layer, view) for place in places for view in place.views]
        if views:
            picture = change_picture(history, open_store(), outline, views, report.day)
    is_elsewhere = wishes.areas is not None and is_read and not places
    if is_elsewhere and not is_wanted(report, [one for one in wishes.occasions if one != "change"]):
        return []
    in_areas, elsewhere = ((), places) if wishes.areas is None else (places, ())
    message = compose(report, elsewhere, wishes.viewer, in_areas)
    if wishes.areas is not None and not is_read and report.changed:
        message = replace(message, body=f"{message.body}\n{_UNREAD}\n")
    return deliver(wishes.targets, message, picture, max(_LEAST, until - time.monotonic()))


def _cost(history: History, map_name: str, segment: str) -> Cost | None:
    """Returns the cost of the segment's newest harvest, of all workers together, or None if there is none."""
    for summary in reversed(harvest_summaries(history, map_name)):
        if summary.segment == segment:
            return summary.cost
    return None


def changed_places(
    history: History, outline: MapOutline, day: date, limit: int = MOST_PLACES
) -> list[ChangedPlace]:
    """Returns the places of the map with most changed tiles on that day, the most changed first.

    Leaves out a place that the view of another one shows, also if that is in another layer of the same world.
    Reads three index entries for each block of each layer's deepest zoom, and the tiles of a few blocks.
    Raises HistoryError.
    """
    found = [
        (layer.described(day).world, place)
        for layer in outline.layers
        for place in _of_layer(history, layer, outline.renderer, day, _MORE * limit)
    ]
    chosen: list[tuple[str | None, ChangedPlace]] = []
    for world, place in sorted(found, key=lambda one: -one[1].count):
        if not any(world == other and _is_seen_with(place, seen) for other, seen in chosen):
            chosen.append((world, place))
    return [place for _, place in chosen[:limit]]


def _of_layer(
    history: History, layer: LayerOutline, renderer: str | None, day: date, limit: int
) -> Iterator[ChangedPlace]:
    if not layer.zooms:
        return
    zoom, before = max(layer.zooms), day - timedelta(days=1)
    for hottest, _, _ in changed_blocks(history, layer.id, zoom, before, day, limit):
        block = hottest.ancestor(BLOCK_LEVELS)
        changed = heat(history, layer.id, TileRange.of(block).at_zoom(zoom), before, day)
        view = view_around(changed)
        x, z, degrees = page_place(layer.described(day), renderer, Ground.of(view, layer.factor).middle)
        # At half size a screen of 800 pixels shows four tiles of 384 pixels across.
        shown = zoom - 1 if layer.factor == 2 else zoom - 0.5
        tile = covering(changed)
        yield ChangedPlace(layer.name, len(changed), (view,), x, z, shown, tile=tile, degrees=degrees)


def _is_seen_with(place: ChangedPlace, other: ChangedPlace) -> bool:
    """Returns whether the other place's view shows the middle of this place's view."""
    its, view = place.views[0], other.views[0]
    x, y = (its.x_from + its.x_to) / 2, (its.y_from + its.y_to) / 2
    return view.x_from <= x <= view.x_to and view.y_from <= y <= view.y_to


def covering(tiles: Collection[Tile]) -> Tile:
    """Returns the smallest tile that covers all of these tiles. They must be of one zoom and one block."""
    for levels in range(BLOCK_LEVELS):
        above = {tile.ancestor(levels) for tile in tiles}
        if len(above) == 1:
            return above.pop()
    return next(iter(tiles)).ancestor(BLOCK_LEVELS)


def view_around(tiles: Collection[Tile]) -> TileRange:
    """Returns a square of 2 x 2 to 4 x 4 tiles around the tile that is nearest to the middle of these."""
    across = TileRange.covering(tiles)
    middle_x, middle_y = (
        sum(places) / len(tiles) for places in zip(*((one.x, one.y) for one in tiles), strict=True)
    )
    centre = min(tiles, key=lambda one: (abs(one.x - middle_x) + abs(one.y - middle_y), one))
    side, step = min(_WIDEST, max(2, len(across.columns), len(across.rows))), 2 << -centre.zoom
    left, lower = (place - (side - 1) // 2 * step for place in (centre.x, centre.y))
    reach = (side - 1) * step
    return TileRange(centre.zoom, left, left + reach, lower, lower + reach)


def changed_areas(
    history: History, outline: MapOutline, day: date, areas: Sequence[NamedArea]
) -> list[ChangedPlace]:
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
            where = view_of(layer, rectangle)
            views = tuple(_views(tiles))
            found.append(ChangedPlace(layer.name, len(tiles), views, *where, area=area.name))
    return found


def _views(tiles: Sequence[Tile]) -> Iterator[TileRange]:
    """Yields a view of each block of 8 x 8 tiles that has changed tiles, those with most of them first."""
    blocks: defaultdict[Tile, list[Tile]] = defaultdict(list)
    for tile in tiles:
        blocks[tile.ancestor(BLOCK_LEVELS)].append(tile)
    for changed in sorted(blocks.values(), key=len, reverse=True)[:_MOST_VIEWS]:
        yield view_around(changed)
