"""The data API's answers about named areas."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import msgspec

from tileharvest.errors import ConfigurationError
from tileharvest.history.area_changes import changed_in, rectangle_of_area, screen_zoom
from tileharvest.viewer.parameters import Parameters
from tileharvest.viewer.replies import quoted, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.viewer.api import Query
    from tileharvest.viewer.served_maps import ServedMaps


def list_areas(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers with the named areas of a map, in the owner's order."""
    Parameters(query, ())
    return {"areas": [_described(served, names[0], area) for area in served.areas(names[0])]}


def area_story(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers on which days how many tiles of an area changed."""
    Parameters(query, ())
    map_name, name = names
    areas = served.areas(map_name)
    area = next((one for one in areas if one.name == name), None)
    if area is None:
        there = ", ".join(quoted(one.name) for one in areas) or "none: `scrapy areas` adds one"
        raise unknown(f"map '{map_name}' has no area {quoted(name)}; it has: {there}")
    history, outline, layer = served.layer(map_name, area.layer)
    try:
        rectangle = rectangle_of_area(area, layer, outline.renderer)
        found = changed_in(history, layer, rectangle, date.min)
    except ConfigurationError as error:
        raise unknown(f"of area {quoted(area.name)} no story can be told: {error}") from None
    return {
        **_described(served, map_name, area),
        "days": {day.isoformat(): len(tiles) for day, tiles in found.items()},
    }


def _described(served: ServedMaps, map_name: str, area: NamedArea) -> dict[str, Any]:
    return {**msgspec.to_builtins(area), "place": _place(served, map_name, area)}


def _place(served: ServedMaps, map_name: str, area: NamedArea) -> dict[str, float] | None:
    """Returns x, z and zoom of a screen that shows the area, as the page's addresses have them; None where
    its layer is not in the history, or its corners are none of this map."""
    outline = served.outline(map_name)
    layer = next((one for one in outline.layers if one.name == area.layer), None)
    if layer is None or not layer.zooms:
        return None
    try:
        rectangle = rectangle_of_area(area, layer, outline.renderer)
    except ConfigurationError:
        return None
    x, z = rectangle.middle
    # The page counts from the middle of a unit.
    return {"x": x - 0.5, "z": z - 0.5, "zoom": screen_zoom(layer, rectangle)}
