"""Replies with pictures of levels that the history lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.pictures.composer import PastLayer
from tileharvest.pictures.pixels import LARGEST
from tileharvest.viewer.parameters import Parameters, parse_tile, picture_days
from tileharvest.viewer.replies import (
    AFTER_ASKING,
    NEVER,
    knows,
    not_modified,
    reply,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from aiohttp import web

    from tileharvest.pictures.composer import Composer
    from tileharvest.tiles.grid import Tile
    from tileharvest.viewer.served_maps import ServedMaps


def composed_picture(
    served: ServedMaps, composer: Composer, names: Sequence[str], request: web.BaseRequest
) -> web.Response:
    """Replies with the picture of a tile on a day. Both are in the address, and the layer is a parameter.

    A cache must ask again each time, because an import may bring a past that was not known. Raises
    RefusedError if nothing was there by that day, and if the tile has an image of its own. Raises
    ComposerStoppedError if the viewer is being stopped. May be called by several threads.
    """
    map_name, tile_name, picture_name = names
    layer_name = Parameters(request.query.items(), ("layer",)).text("layer")
    tile, (day,) = parse_tile(tile_name), picture_days([picture_name], ".png")
    past = _past(served, map_name, layer_name, tile, day)
    composition = composer.composition(past, tile)
    if composition is None:
        raise unknown(f"there was nothing at {tile} by {day}")
    tag = f'"{composition.key}"'
    headers = {"Content-Type": "image/png", "Cache-Control": AFTER_ASKING, "ETag": tag}
    if knows(request, tag):
        return not_modified(headers)
    picture = composer.picture(past, composition)
    if not picture.whole:
        headers = {"Content-Type": "image/png", "Cache-Control": NEVER}
    return reply(picture.body, headers)


def _past(served: ServedMaps, map_name: str, layer_name: str, tile: Tile, day: date) -> PastLayer:
    history, outline, layer = served.layer(map_name, layer_name)
    past = PastLayer.of(history, outline, layer, day, tile.zoom)
    if past is None:
        raise unknown(f"there was nothing at {tile} by {day}")
    if past.source == tile.zoom:
        raise unknown(f"tiles of zoom {tile.zoom} are not composed: a view tells their images")
    width, height = past.tile_size
    if max(width, height) > LARGEST:
        raise unknown(f"tiles of {width} x {height} pixels are not composed")
    return past
