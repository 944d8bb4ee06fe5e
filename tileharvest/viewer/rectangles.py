"""The rectangles of requests, which are of the picture or of the world. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tileharvest.history.area_changes import rectangle_of
from tileharvest.renderers.xyz import is_on_earth, latitude_of
from tileharvest.tiles.ground import Ground
from tileharvest.viewer.replies import echoed, wrong

if TYPE_CHECKING:
    from tileharvest.tiles.layers import Layer
    from tileharvest.viewer.parameters import Parameters

RECTANGLE: Final = ("ground", "area")
"""The two parameters for a rectangle. A request has one of them at most."""

_NUMBERS: Final = re.compile(r"-?\d{1,10}(\.\d{1,9})?", re.ASCII)


def ground_in(parameters: Parameters, layer: Layer, renderer: str | None) -> Ground | None:
    """Returns the rectangle of a request, or None if it has none. Raises RefusedError.

    `ground=west,south,east,north` is in grid units. `area=X,Z,X,Z` has two corners of the world in blocks, or
    latitude and longitude on a map of the earth. If the map's projection is not known, `area` is in grid
    units, with Z downwards.
    """
    if all(name in parameters for name in RECTANGLE):
        raise wrong("a rectangle is given as 'ground' or as 'area', and not as both")
    if "ground" in parameters:
        west, south, east, north = _four(parameters, "ground", "west,south,east,north in grid units")
        try:
            return Ground(west, south, east, north)
        except ValueError as error:
            raise wrong(f"ground={echoed(parameters.text('ground'))} cannot be: {error}") from None
    if "area" not in parameters:
        return None
    return _in_world(parameters, layer, renderer)


def needed_ground(parameters: Parameters, layer: Layer, renderer: str | None) -> Ground:
    """Returns the rectangle of a request that must have one. Raises RefusedError."""
    ground = ground_in(parameters, layer, renderer)
    if ground is None:
        raise wrong("a rectangle is missing: give 'ground' or 'area'")
    return ground


def _in_world(parameters: Parameters, layer: Layer, renderer: str | None) -> Ground:
    on_earth = is_on_earth(layer, renderer)
    form = "latitude,longitude,latitude,longitude" if on_earth else "X,Z,X,Z of two corners"
    one, two, three, four = _four(parameters, "area", form)
    try:
        return rectangle_of(((one, two), (three, four)), layer, renderer).ground(layer.projection)
    except ValueError as error:
        raise wrong(f"area={echoed(parameters.text('area'))} cannot be: {error}") from None


def bounds_in_world(ground: Ground, layer: Layer, renderer: str | None) -> dict[str, object]:
    """Returns where a rectangle of the picture lies, in `blocks` or in `degrees`. Both are None if the
    layer's projection is not known."""
    blocks: list[int] | None = None
    on_earth: list[float] | None = None
    if layer.projection is not None and is_on_earth(layer, renderer):
        west, north, east, south = ground.places(layer.projection)
        on_earth = [round(value, 6) for value in (latitude_of(south), west, latitude_of(north), east)]
    elif layer.projection is not None:
        blocks = ground.blocks(layer.projection)
    return {"blocks": blocks, "degrees": on_earth}


def _four(parameters: Parameters, name: str, form: str) -> list[float]:
    numbers = parameters.text(name).split(",")
    if len(numbers) != 4 or not all(map(_NUMBERS.fullmatch, numbers)):
        raise wrong(f"{name}={echoed(parameters.text(name))} cannot be: write four numbers, {form}")
    return [float(number) for number in numbers]
