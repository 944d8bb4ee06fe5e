"""The layers of a probed site, each with the walk over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tileharvest.errors import ConfigurationError
from tileharvest.walk.walk import Walk

if TYPE_CHECKING:
    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Site
    from tileharvest.tiles.layers import Layer


class LayerWalk(NamedTuple):
    """A layer of the site with the walk over it."""

    layer: Layer
    walk: Walk


def layer_walks(description: MapDescription, site: Site) -> dict[str, LayerWalk]:
    """By the layers' names. Raises ConfigurationError where the map's zooms, zones or max_depth do not fit
    the site."""
    return {layer.name: LayerWalk(layer, walk_over(description, layer)) for layer in site.layers}


def walk_over(description: MapDescription, layer: Layer) -> Walk:
    """Raises ConfigurationError as `layer_walks`."""
    try:
        return Walk(layer.depth, description.zooms, description.zones, description.max_depth)
    except ValueError as error:
        raise ConfigurationError(
            f"map '{description.name}', layer '{layer.name}': {error}; change its zooms, zones or max_depth"
        ) from None
