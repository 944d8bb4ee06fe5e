"""Where a request that has waited is to be asked now: addresses change with the depth of their layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from logging import LoggerAdapter

    from scrapy import Request

    from tileharvest.harvest.walks import LayerWalk


def addressed(
    request: Request, layers: Mapping[str, LayerWalk], logger: LoggerAdapter[Any]
) -> Request | None:
    """The request for the same tile as these layers have it; None, and a line in the log, where they do not.

    Of a request that a person has pushed its meta may lack the layer, if there is only one, or the tile: then
    its address tells both, and the meta gets what was missing.
    """
    meta = request.meta
    if meta["tile"] is None:
        found = next((at for part in layers.values() if (at := part.layer.tile_at(request.url))), None)
        if found is None:
            logger.error("%s is no tile of the map; it was not asked for", request.url)
            return None
        meta.update(layer=found[0], tile=(found[1].zoom, found[1].x, found[1].y))
    name = meta["layer"] or (next(iter(layers)) if len(layers) == 1 else "")
    if name not in layers:
        logger.error("layer '%s' is not harvested; it has: %s", name, ", ".join(layers))
        return None
    layer = layers[name].layer
    try:
        url = layer.tile_url(Tile(*meta["tile"]))
    except ValueError as error:
        logger.error("a request was dropped: %s", error)
        return None
    meta.update(layer=name, download_slot=layer.host)
    return request if url == request.url else request.replace(url=url)
