"""Permalinks: addresses of the viewer that show a place on a day. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

if TYPE_CHECKING:
    from datetime import date


def permalink(
    viewer: str,
    map_name: str,
    layer: str,
    day: date,
    x: float,
    z: float,
    zoom: float,
    before: date | None = None,
) -> str:
    """Returns the address at which the viewer shows this place on this day. `permalink.js` reads it.

    x and z are whole numbers for a block. `zoom` is the screen's. The page reads and this writes six
    decimals. With a day `before` the page compares the two days.
    """
    place = {"x": written(x), "z": written(z), "zoom": written(zoom)}
    compared = {} if before is None else {"mode": "swipe", "with": before.isoformat()}
    look = {"map": map_name, "layer": layer, "day": day.isoformat(), **place, **compared}
    return f"{viewer.split('#', 1)[0]}#{urlencode(look)}"


def written(number: float) -> str:
    """Returns the number with at most six decimals and without an exponent, which the page cannot read."""
    return f"{number:.6f}".rstrip("0").rstrip(".")
