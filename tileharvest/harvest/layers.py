"""The layers of a probed site as one map's harvest walks over them, and as the history records them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tileharvest.errors import ConfigurationError
from tileharvest.history.harvests import HarvestLayer
from tileharvest.walk.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Site, SiteLayer
    from tileharvest.tiles.questions import TileQuestion


class LayerWalk(NamedTuple):
    """A layer of the site with the walk over it."""

    layer: SiteLayer
    walk: Walk


def layer_walks(description: MapDescription, site: Site) -> dict[str, LayerWalk]:
    """By the layers' names. Raises ConfigurationError where the map's zooms, zones or max_depth do not fit
    the site."""
    return {layer.name: LayerWalk(layer, walk_over(description, layer)) for layer in site.layers}


def located(layers: Mapping[str, LayerWalk], question: TileQuestion, url: str) -> tuple[TileQuestion, str]:
    """The question and its address as these layers have it: addresses change with the depth of a layer.

    A question that a person has pushed may lack the layer, if there is only one, or the tile: then its
    address tells both. Raises LookupError, with a line for the log, where the layers have no such tile.
    """
    tile = question.tile
    if tile is None:
        found = next((at for part in layers.values() if (at := part.layer.tile_at(url))), None)
        if found is None:
            raise LookupError(f"{url} is no tile of the map; it was not asked for")
        name, tile = found
    else:
        name = question.layer or (next(iter(layers)) if len(layers) == 1 else "")
    if name not in layers:
        raise LookupError(f"layer '{name}' is not harvested; it has: {', '.join(layers)}")
    try:
        url = layers[name].layer.tile_url(tile)
    except ValueError as error:
        raise LookupError(f"a request was dropped: {error}") from None
    return replace(question, layer=name, tile=tile), url


def recorded(layer: SiteLayer) -> HarvestLayer:
    """What the history keeps of a layer as it is today."""
    return HarvestLayer(
        name=layer.name,
        depth=layer.depth,
        image_extension=layer.image_extension,
        tile_size=layer.tile_size,
        north_direction=layer.north_direction,
        world=layer.world,
        background=layer.background,
        spawn=layer.spawn,
        rendered=layer.rendered,
    )


def walk_over(description: MapDescription, layer: SiteLayer) -> Walk:
    """Raises ConfigurationError as `layer_walks`."""
    try:
        return Walk(layer.depth, description.zooms, description.zones, description.max_depth)
    except ValueError as error:
        raise ConfigurationError(
            f"map '{description.name}', layer '{layer.name}': {error}; change its zooms, zones or max_depth"
        ) from None
