"""What is new: the events of a period, and the Atom feed (RFC 4287) of those of the last months.

An event keeps its identity while it grows, so that a feed reader updates the entry and shows it once.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

from tileharvest.errors import ConfigurationError
from tileharvest.history.changes import certainty, events
from tileharvest.maps.permalink import permalink, written
from tileharvest.renderers.xyz import page_place
from tileharvest.tiles.ground import Ground
from tileharvest.viewer.parameters import AREA, Parameters, bounds_in_world, ground_in
from tileharvest.viewer.replies import wrong
from tileharvest.viewer.shared_places import in_words, place_in_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tileharvest.history.changes import Certainty
    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.tiles.events import Event
    from tileharvest.tiles.layers import Layer
    from tileharvest.viewer.parameters import Query
    from tileharvest.viewer.served_maps import ServedMaps

MOST_DAYS: Final = 366
MOST_EVENTS: Final = 1000
_EVENTS: Final = 100
MONTHS: Final = 3
"""The months with a harvest that a feed covers."""
MOST_ENTRIES: Final = 200
"""The most events of a feed. The newest ones are kept, so a feed reader that comes every few days misses
none."""

_ATOM: Final = "http://www.w3.org/2005/Atom"
_NAMES: Final = uuid.UUID("6f1a3f0e-52a1-5c0b-9d3e-0f6c2b1e7a44")
"""The namespace of the events' identities. With another namespace every event would be new to every feed
reader."""
_BEGAN: Final = "1970-01-01T00:00:00Z"
"""The time of update of a feed without events."""

_WORDS: Final = {
    "en": {
        "title": "{map}: what is new",
        "title_of_area": "{map}: what is new {place}",
        "changed": "{tiles} changed {place}, {days}",
        "new": "The map has grown by {tiles} {place}, {days}",
        "gone": "{tiles} gone {place}, {days}",
        "tile": "1 tile",
        "tiles": "{n:,} tiles",
        "place": "around {place}",
        "period": "{first} to {last}",
        "pictures": "Before ({before}) and after ({after})",
        "compare": "Compare the two days on the map",
        "layer": "Layer: {layer}",
    },
    "zh": {
        "title": "{map}：新变化",
        "title_of_area": "{map}：{place}的新变化",
        "changed": "{days}，{place} {tiles}有变化",
        "new": "{days}，{place} 地图新增 {tiles}",
        "gone": "{days}，{place} {tiles}消失",
        "tile": "1 个图块",
        "tiles": "{n:,} 个图块",
        "place": "{place} 附近",
        "period": "{first} 至 {last}",
        "pictures": "之前（{before}）与之后（{after}）",
        "compare": "在地图上比较这两天",
        "layer": "图层：{layer}",
    },
}


@dataclass(frozen=True, slots=True)
class LayerEvent:
    """An event, with its layer and the moments that are needed to show it."""

    event: Event
    layer: LayerOutline
    before: date
    """The last day with a harvest before the event, which the picture before shows."""
    updated: datetime
    """The moment at which the last harvest ended that has added to the event."""

    @property
    def ground(self) -> Ground:
        return Ground.of(self.event.area, self.layer.factor)


def list_events(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers with the events of a period. Events with most tiles come first."""
    parameters = Parameters(query, ("layer", "from", "to"), ("ground", "limit"))
    first, last = parameters.period("from", "to")
    if (last - first).days >= MOST_DAYS:
        raise wrong(f"a period has {MOST_DAYS} days at most, and this one {(last - first).days + 1:,}")
    limit = parameters.number("limit", 1, MOST_EVENTS, _EVENTS)
    _, outline, layer = served.layer(names[0], parameters.text("layer"))
    ground = ground_in(parameters) if "ground" in parameters else None
    found, sure = _of_layer(served, outline, layer, first, last, ground)
    largest = sorted(found, key=lambda one: (-one.event.tiles, one.event.first, one.event.seed))
    return {
        "settled": None if sure.settled is None else sure.settled.isoformat(),
        "first_asked": [day.isoformat() for day in sorted(sure.first_asked) if first <= day <= last],
        "count": len(found),
        "events": [_as_plain(one, outline) for one in largest[:limit]],
    }


def recent_events(
    served: ServedMaps, map_name: str, layer_name: str | None, ground: Ground | None
) -> tuple[MapOutline, list[LayerEvent]]:
    """Returns the map, and the events of its last `MONTHS` months with a harvest, newest first.

    Each month is clustered by itself, so that an event is the same in each answer. Days to which harvests
    still add are left out. If no layer is named, the first layer of each world counts, as the others show the
    same ground, for example by night. Raises RefusedError.
    """
    outline = served.outline(map_name)
    # Reversed, so that the first layer of each world stays.
    firsts = {one.described(outline.days[-1]).world or (one.name,): one for one in outline.layers[::-1]}
    named = list(firsts.values()) if layer_name is None else [served.layer(map_name, layer_name)[2]]
    months = sorted({day.replace(day=1) for day in outline.days})[-MONTHS:]
    found = [
        event
        for layer in named
        for first in months
        for event in _of_layer(served, outline, layer, first, _last_of_month(first), ground, is_settled=True)[
            0
        ]
    ]
    found.sort(key=lambda one: (one.updated, one.event.first, one.event.tiles, one.event.seed), reverse=True)
    return outline, found


def _last_of_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def _of_layer(
    served: ServedMaps,
    outline: MapOutline,
    layer: LayerOutline,
    first: date,
    last: date,
    ground: Ground | None,
    *,
    is_settled: bool = False,
) -> tuple[list[LayerEvent], Certainty]:
    history = served.layer(outline.name, layer.name)[0]
    sure = certainty(history, layer.id)
    if is_settled:
        last = min(last, sure.settled or date.min)
    try:
        found = events(history, layer, first, last, sure.first_asked) if first <= last else []
    except ConfigurationError as error:
        raise wrong(f"{error}: ask for fewer days") from None
    shown = [
        LayerEvent(event, layer, outline.day_before(event.first) or event.first, sure.ended[event.last])
        for event in found
    ]
    return [one for one in shown if ground is None or one.ground.touches(ground)], sure


def _as_plain(shown: LayerEvent, outline: MapOutline) -> dict[str, Any]:
    event, area = shown.event, shown.event.area
    edges = {name: getattr(area, name) for name in AREA}
    return {
        "first": event.first.isoformat(),
        "last": event.last.isoformat(),
        "before": shown.before.isoformat(),
        "kind": event.kind,
        "tiles": event.tiles,
        "changed": event.changed,
        "new": event.new,
        "gone": event.gone,
        "area": edges,
        "ground": [shown.ground.west, shown.ground.south, shown.ground.east, shown.ground.north],
        **bounds_in_world(shown.ground, shown.layer.described(event.last), outline.renderer),
    }


@dataclass(frozen=True, slots=True)
class Feed:
    """What all entries of a feed share."""

    outline: MapOutline
    viewer: str
    """The viewer's address, with a slash at its end."""
    language: str

    def title(self, layer: LayerOutline | None, ground: Ground | None) -> str:
        """Returns the title of the feed of a rectangle, or of the whole map without one."""
        name = self.outline.name
        if ground is None or layer is None:
            return self._say("title", map=name)
        return self._say("title_of_area", map=name, place=self._place(layer.latest, ground))

    def entry(self, shown: LayerEvent) -> ET.Element:
        """Returns the entry of an event. The identity stays the same in each viewer of the map, whatever
        later harvests add to the event. Each language has its own, so a reader of two feeds shows both."""
        event, layer = shown.event, shown.layer
        named = [self.outline.name, layer.name, event.first.isoformat(), str(event.seed)]
        named += [self.language] if self.language != "en" else []
        x, z, _ = page_place(layer.described(event.last), self.outline.renderer, shown.ground.middle)
        link = permalink(
            self.viewer, self.outline.name, layer.name, event.last, x, z, event.area.zoom, shown.before
        )
        entry = ET.Element("entry")
        _add(entry, "id", uuid.uuid5(_NAMES, repr(tuple(named))).urn)
        _add(entry, "title", self._sentence(shown))
        _add(entry, "updated", _moment(shown.updated))
        _add(entry, "link", rel="alternate", type="text/html", href=link)
        _add(entry, "category", term=event.kind)
        _add(entry, "content", self._html(shown, escape(link)), type="html")
        return entry

    def _sentence(self, shown: LayerEvent) -> str:
        event = shown.event
        first, last = event.first.isoformat(), event.last.isoformat()
        days = first if first == last else self._say("period", first=first, last=last)
        tiles = self._say("tile" if event.tiles == 1 else "tiles", n=event.tiles)
        place = self._place(shown.layer.described(event.last), shown.ground)
        return self._say(event.kind, tiles=tiles, place=place, days=days)

    def _html(self, shown: LayerEvent, link: str) -> str:
        ground, days = shown.ground, f"{shown.before}/{shown.event.last}.jpg"
        corners = ",".join(map(written, (ground.west, ground.south, ground.east, ground.north)))
        query = urlencode({"layer": shown.layer.name, "ground": corners}, safe=",")
        picture = escape(f"{_api(self.viewer, self.outline.name)}/before/{days}?{query}")
        pictures = escape(self._say("pictures", before=shown.before, after=shown.event.last))
        layer = escape(self._say("layer", layer=shown.layer.name))
        return (
            f'<p><a href="{link}"><img src="{picture}" alt="{pictures}"></a></p>'
            f'<p>{pictures}. <a href="{link}">{escape(self._say("compare"))}</a></p><p>{layer}</p>'
        )

    def _say(self, words: str, **values: object) -> str:
        return in_words(_WORDS[self.language][words], values)

    def _place(self, layer: Layer, ground: Ground) -> str:
        middle = page_place(layer, self.outline.renderer, ground.middle)
        return self._say("place", place=place_in_words(*middle, self.language))


def feed(served: ServedMaps, map_name: str, viewer: str, query: Query) -> bytes:
    """Returns the Atom feed of a map's newest events, newest first. `viewer` is the address of the viewer's
    page, with a slash at its end. Raises RefusedError."""
    parameters = Parameters(query, (), ("layer", "ground", "language"))
    language = parameters.language(tuple(_WORDS))
    layer_name = parameters.text("layer") if "layer" in parameters else None
    ground = ground_in(parameters) if "ground" in parameters else None
    outline, found = recent_events(served, map_name, layer_name, ground)
    asked = f"?{urlencode(query, safe=',')}" if query else ""
    address = f"{_api(viewer, map_name)}/events.atom{asked}"
    layer = outline.layer(layer_name) if layer_name else next(iter(outline.layers), None)
    shared, shown = Feed(outline, viewer, language), found[:MOST_ENTRIES]
    root = ET.Element("feed", {"xmlns": _ATOM, "xml:lang": language})
    _add(root, "id", uuid.uuid5(_NAMES, address.removeprefix(viewer)).urn)
    _add(root, "title", shared.title(layer, ground))
    _add(root, "updated", _moment(shown[0].updated) if shown else _BEGAN)
    _add(root, "link", rel="self", type="application/atom+xml", href=address)
    _add(root, "link", rel="alternate", type="text/html", href=f"{viewer}#{urlencode({'map': map_name})}")
    _add(_add(root, "author"), "name", map_name)
    _add(root, "generator", "TileHarvest")
    root.extend(map(shared.entry, shown))
    body: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return body


def _api(viewer: str, map_name: str) -> str:
    return f"{viewer}api/v1/maps/{quote(map_name, safe='')}"


def _add(parent: ET.Element, name: str, text: str | None = None, **attributes: str) -> ET.Element:
    child = ET.SubElement(parent, name, attributes)
    child.text = text
    return child


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
