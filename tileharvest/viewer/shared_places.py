"""Shared places: addresses of a place on one day or two, with a title and a picture for other sites.

A browser never sends the part of an address behind `#` to a server, so a chat or a forum can show nothing of
the page's own addresses. `s/MAP/DAY/X,Z,ZOOM` gives a server the same place (https://ogp.me), and leads a
browser to the page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from PIL import Image

from tileharvest.errors import printable
from tileharvest.maps.permalink import permalink, written
from tileharvest.pictures.pixels import UNREADABLE
from tileharvest.pictures.scenes import GAP, HEADING, Scenes, as_jpeg, side_by_side
from tileharvest.renderers.xyz import is_on_earth, latitude_of
from tileharvest.tiles.ground import ON_GRID, Ground
from tileharvest.viewer.parameters import Parameters, parse_day
from tileharvest.viewer.replies import damaged, quoted, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.viewer.parameters import Query
    from tileharvest.viewer.served_maps import ServedMaps

WIDTH: Final = 1200
HEIGHT: Final = 630
"""Pixels of a picture. Most sites show this size without cutting it."""

_NUMBER: Final = r"-?\d{1,9}(?:\.\d{1,6})?"
_PLACE: Final = re.compile(rf"({_NUMBER}),({_NUMBER}),(-?\d{{1,2}}(?:\.\d{{1,2}})?)", re.ASCII)
_COARSEST: Final = -30
_MOST_ENLARGED: Final = 2
"""The deepest zoom in the page's addresses, and `_COARSEST` the coarsest (`permalink.js`)."""
_FARTHEST: Final = 180
"""A distance from the equator, in degrees of longitude, that lies beyond both poles of a map of the earth."""
_ROOT: Final = "../../../"
"""The viewer's address, as seen from that of a shared place."""
PARAMETERS: Final = ("layer", "language", "embed")
_WORDS: Final = {
    "en": {
        "one": "{map} on {day}",
        "two": "{map}, {before} and {day}",
        "place": "Seen at {place}, layer {layer}.",
        "open": "Open it on the map",
    },
    "zh": {
        "one": "{day} 的 {map}",
        "two": "{before} 与 {day} 的 {map}",
        "place": "位置：{place}，图层：{layer}。",
        "open": "在地图上打开",
    },
}


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """A place that an address names. Its map, its layer and its days are in the history."""

    outline: MapOutline
    layer: LayerOutline
    days: tuple[date, ...]
    """One day, or an earlier and a later one."""
    x: float
    z: float
    """The place as in the page's addresses: whole numbers are the middles of blocks."""
    zoom: float
    language: str = "en"
    is_embedded: bool = False

    @property
    def title(self) -> str:
        key = "two" if len(self.days) > 1 else "one"
        return self._words(key, map=self.outline.name, before=self.days[0], day=self.days[-1])

    @property
    def description(self) -> str:
        on_earth = is_on_earth(self.layer.latest, self.outline.renderer)
        degrees = (latitude_of(self.z + 0.5), self.x + 0.5) if on_earth else None
        place = place_in_words(self.x, self.z, degrees, self.language)
        return self._words("place", place=place, layer=self.layer.name)

    def page(self, viewer: str, *, is_embedded: bool) -> str:
        """Returns the address at which the viewer's page shows the place. `viewer` is the viewer's
        address."""
        start = f"{viewer}?embed=1" if is_embedded else viewer
        before = self.days[0] if len(self.days) > 1 else None
        layer, name = self.layer.name, self.outline.name
        return permalink(start, name, layer, self.days[-1], self.x, self.z, self.zoom, before)

    def address(self, viewer: str, ending: str = "") -> str:
        """Returns the address of the place itself."""
        days = "..".join(map(str, self.days))
        place = ",".join(map(written, (self.x, self.z, self.zoom)))
        query = {"layer": self.layer.name}
        if self.language != "en":
            query["language"] = self.language
        return f"{viewer}s/{quote(self.outline.name, safe='')}/{days}/{place}{ending}?{urlencode(query)}"

    def html(self, viewer: str) -> str:
        """Returns the HTML that other sites read. It leads a browser to the viewer's page."""
        page = escape(self.page(_ROOT, is_embedded=self.is_embedded))
        meta = {
            "og:type": "website",
            "og:title": self.title,
            "og:description": self.description,
            "og:url": self.address(viewer),
            "og:image": self.address(viewer, ".jpg"),
            "og:image:width": str(WIDTH),
            "og:image:height": str(HEIGHT),
        }
        title, description, link = map(escape, (self.title, self.description, self._words("open")))
        told = "\n".join(f'<meta property="{name}" content="{escape(meta[name])}">' for name in meta)
        # In the viewer's colours: the page would else be white for the moment that it is seen.
        return f"""<!doctype html>
<html lang="{self.language}" data-theme="auto" prefix="og: https://ogp.me/ns#">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="{_ROOT}page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="{_ROOT}page/style.css">
<meta http-equiv="refresh" content="0; url={page}">
<meta name="description" content="{description}">
{told}
<meta name="twitter:card" content="summary_large_image">
<main class="empty"><h1>{title}</h1><p>{description}</p><p><a href="{page}">{link}</a></p></main>
"""

    def _words(self, key: str, **values: object) -> str:
        return in_words(_WORDS[self.language][key], values)


def in_words(words: str, values: Mapping[str, object]) -> str:
    """Returns the words with the values in their places. Nothing that a site wrote can hide or turn words."""
    shown = {name: printable(one) if isinstance(one, str) else one for name, one in values.items()}
    return words.format(**shown)


def place_in_words(x: float, z: float, degrees: tuple[float, float] | None, language: str) -> str:
    """Returns a place as people read it. `degrees` are its latitude and longitude on a map of the earth."""
    if degrees is not None:
        return f"{degrees[0]:.5f}\u00b0, {degrees[1]:.5f}\u00b0"
    return f"X {round(x)}{'，' if language == 'zh' else ', '}Z {round(z)}"


def shared_place(served: ServedMaps, names: Sequence[str], query: Query) -> SharedPlace:
    """Returns the place that an address names. Raises RefusedError, which says what is not there."""
    parameters = Parameters(query, (), PARAMETERS)
    if len(names) != 3:
        raise unknown("a shared place is written s/MAP/DAY/X,Z,ZOOM")
    map_name, days_text, place_text = names
    outline = served.outline(map_name)
    there = outline.layers[0].name if outline.layers else ""
    layer = served.layer(map_name, parameters.text("layer") if "layer" in parameters else there)[2]
    language = parameters.language(tuple(_WORDS))
    days = _days(outline, days_text)
    x, z, zoom = _place(outline, layer, place_text)
    return SharedPlace(outline, layer, days, x, z, zoom, language, "embed" in parameters)


def place_picture(served: ServedMaps, names: Sequence[str], query: Query) -> bytes:
    """Returns a JPEG of 1200 x 630 pixels. It shows the place on its day, or on both days with the days above
    them.

    Raises RefusedError if there is nothing to show, and ComposerStoppedError if the viewer is being stopped.
    """
    place = shared_place(served, names, query)
    history = served.layer(place.outline.name, place.layer.name)[0]
    scenes = Scenes(served.store, served.composer, history, place.outline, place.layer)
    is_pair = len(place.days) > 1
    size = ((WIDTH - GAP) // 2, HEIGHT - HEADING) if is_pair else (WIDTH, HEIGHT)
    ground = _ground(place, *size)
    try:
        zoom = scenes.zoom(ground, place.days[-1])
        if zoom is None:
            raise unknown("of this place there is no picture: nothing was there by then, or it is too large")
        seen = [scenes.mosaic(ground, zoom, day).resize(size) for day in place.days]
    except UNREADABLE:
        raise damaged("place") from None
    if not is_pair:
        return as_jpeg(seen[0])
    halves = list(zip(map(str, place.days), seen, strict=True))
    return as_jpeg(side_by_side(halves[0], halves[1], Image.new("L", size)))


def _days(outline: MapOutline, text: str) -> tuple[date, ...]:
    days = tuple(day for day in map(parse_day, text.split("..")) if day is not None)
    first, last = outline.days[0], outline.days[-1]
    if len(days) != text.count("..") + 1 or len(days) > 2 or list(days) != sorted(set(days)):
        raise unknown(f"{quoted(text)} is neither a day nor two: write 2021-02-13, or 2021-02-13..2021-02-16")
    if days[0] < first or days[-1] > last:
        raise unknown(f"the history of map '{outline.name}' goes from {first} to {last}, without {text}")
    return days


def _place(outline: MapOutline, layer: LayerOutline, text: str) -> tuple[float, float, float]:
    """Returns X, Z and the zoom of a place. Raises RefusedError."""
    place = _PLACE.fullmatch(text)
    if place is None:
        raise unknown(f"{quoted(text)} is not a place: write X,Z,ZOOM, as in 120,-340,-1")
    x, z, zoom = map(float, place.groups())
    if not _COARSEST <= zoom <= _MOST_ENLARGED:
        raise unknown(f"{quoted(text)} is not a place: zooms go from {_COARSEST} to {_MOST_ENLARGED}")
    if is_on_earth(layer.latest, outline.renderer) and abs(z) > _FARTHEST:
        raise unknown(f"{quoted(text)} is farther out than the map")
    return x, z, zoom


def _ground(place: SharedPlace, width: int, height: int) -> Ground:
    """Returns the ground around the place that a screen of this size shows."""
    described, factor = place.layer.described(place.days[-1]), place.layer.factor
    x, y = (described.projection or ON_GRID).point_of(place.x + 0.5, place.z + 0.5)
    # At zoom 0 a tile is two grid units wide and high.
    reach, rise = (
        # No map reaches farther, and Python's `len` could not count the tiles.
        min(seen * factor**-place.zoom / edge, 2.0**32)
        for seen, edge in zip((width, height), described.tile_size, strict=True)
    )
    return Ground(x - reach, y - rise, x + reach, y + rise)
