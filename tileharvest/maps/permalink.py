"""Permalinks: the addresses of the viewer's page that show a place on a day. Pure."""

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
    """Returns the viewer's address that shows this place on this day, as its page reads it (`permalink.js`).

    x and z are whole numbers for a block, and `zoom` is the screen's. They are written to a millionth, as
    exactly as the page reads them. With a day `before` the page compares the two.
    """
    place = {"x": written(x), "z": written(z), "zoom": written(zoom)}
    compared = {} if before is None else {"mode": "swipe", "with": before.isoformat()}
    look = {"map": map_name, "layer": layer, "day": day.isoformat(), **place, **compared}
    return f"{viewer.split('#', 1)[0]}#{urlencode(look)}"


def written(number: float) -> str:
    """Returns a number to a millionth and without an exponent, which the page would not read."""
    return f"{number:.6f}".rstrip("0").rstrip(".")
