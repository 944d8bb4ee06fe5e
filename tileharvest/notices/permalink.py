"""Permalinks: addresses in the viewer, as its page has them (`viewer/page/permalink.js`). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

if TYPE_CHECKING:
    from datetime import date


def permalink(viewer: str, map_name: str, layer: str, day: date, x: int, z: int, zoom: int) -> str:
    """Returns the address that shows this place on this day. x and z are blocks, `zoom` is the screen's."""
    look = {"map": map_name, "layer": layer, "day": day.isoformat(), "x": x, "z": z, "zoom": zoom}
    return f"{viewer.split('#', 1)[0]}#{urlencode(look)}"
