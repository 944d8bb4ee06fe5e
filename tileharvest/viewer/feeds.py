"""Feeds: events as Atom (RFC 4287) and as a calendar (RFC 5545).

An event keeps its identity while it grows, so that a feed reader updates the entry and shows it once.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, timedelta
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

from tileharvest.errors import printable
from tileharvest.maps.permalink import permalink, written
from tileharvest.renderers.xyz import page_place
from tileharvest.viewer.events import recent_events
from tileharvest.viewer.parameters import Parameters, ground_in
from tileharvest.viewer.shared_places import place_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.tiles.ground import Ground
    from tileharvest.tiles.layers import Layer
    from tileharvest.viewer.events import LayerEvent
    from tileharvest.viewer.parameters import Query
    from tileharvest.viewer.served_maps import ServedMaps

MOST_ENTRIES: Final = 200
"""The most events of a feed. The newest ones are kept, so a feed reader that comes every few days misses
none."""

_ATOM: Final = "http://www.w3.org/2005/Atom"
_NAMES: Final = uuid.UUID("6f1a3f0e-52a1-5c0b-9d3e-0f6c2b1e7a44")
"""The namespace of the events' identities. With another namespace every event would be new to every feed
reader."""
_LINE: Final = 75
"""The most octets of a line of a calendar (RFC 5545, section 3.1)."""
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BEGAN: Final = "1970-01-01T00:00:00Z"
"""The time of update of a feed without events."""

FEEDS: Final = {"events.atom": "application/atom+xml", "events.ics": "text/calendar; charset=utf-8"}
"""The media types of the feeds, by the last part of their address."""
LANGUAGES: Final = ("en", "zh")
_WORDS: Final = {
    "en": {
        "title": "{map}: what is new",
        "title_of_area": "{map}: what is new {place}",
        "changed": "{n} tiles changed {place}, {days}",
        "new": "The map has grown by {n} tiles {place}, {days}",
        "gone": "{n} tiles are gone {place}, {days}",
        "changed_one": "1 tile changed {place}, {days}",
        "new_one": "The map has grown by 1 tile {place}, {days}",
        "gone_one": "1 tile is gone {place}, {days}",
        "place": "around {place}",
        "period": "{first} to {last}",
        "pictures": "Before ({before}) and after ({after})",
        "compare": "Compare the two days on the map",
        "layer": "Layer: {layer}",
    },
    "zh": {
        "title": "{map}：新变化",
        "title_of_area": "{map}：{place}的新变化",
        "changed": "{days}，{place} {n} 个图块有变化",
        "new": "{days}，{place} 地图新增 {n} 个图块",
        "gone": "{days}，{place} {n} 个图块消失",
        "changed_one": "{days}，{place} 1 个图块有变化",
        "new_one": "{days}，{place} 地图新增 1 个图块",
        "gone_one": "{days}，{place} 1 个图块消失",
        "place": "{place} 附近",
        "period": "{first} 至 {last}",
        "pictures": "之前（{before}）与之后（{after}）",
        "compare": "在地图上比较这两天",
        "layer": "图层：{layer}",
    },
}


@dataclass(frozen=True, slots=True)
class Feed:
    """The values that all entries of a feed share."""

    outline: MapOutline
    viewer: str
    """The viewer's address, with a slash at its end."""
    address: str
    """The feed's own address."""
    layer: LayerOutline | None
    """The only layer of the feed, or None if it covers all layers."""
    ground: Ground | None
    """The feed's rectangle, or None if it covers the whole map."""
    language: str
    """One of `LANGUAGES`."""

    @property
    def map(self) -> str:
        return self.outline.name

    @property
    def title(self) -> str:
        if self.ground is None:
            return self._say("title", map=self.map)
        layer = self.layer or self.outline.layers[0]
        return self._say("title_of_area", map=self.map, place=self._place(layer.latest, self.ground))

    def sentence(self, shown: LayerEvent) -> str:
        """Returns one line about an event."""
        event = shown.event
        kind = event.kind if event.tiles > 1 else f"{event.kind}_one"
        first, last = event.first.isoformat(), event.last.isoformat()
        days = first if first == last else self._say("period", first=first, last=last)
        place = self._place(shown.layer.described(event.last), shown.ground)
        return self._say(kind, n=f"{event.tiles:,}", place=place, days=days)

    def link(self, shown: LayerEvent) -> str:
        """Returns the page's address that compares the days before and after the event at its place."""
        event, layer = shown.event, shown.layer
        x, z, _ = page_place(layer.described(event.last), self.outline.renderer, shown.ground.middle)
        return permalink(self.viewer, self.map, layer.name, event.last, x, z, event.area.zoom, shown.before)

    def picture(self, shown: LayerEvent) -> str:
        """Returns the address of the pictures before and after."""
        ground = shown.ground
        corners = ",".join(written(edge) for edge in (ground.west, ground.south, ground.east, ground.north))
        days = f"{shown.before}/{shown.event.last}.jpg"
        query = urlencode({"layer": shown.layer.name, "ground": corners}, safe=",")
        return f"{self.viewer}api/v1/maps/{quote(self.map, safe='')}/before/{days}?{query}"

    def html(self, shown: LayerEvent) -> str:
        """Returns the HTML that a feed reader shows for an event."""
        pictures = self._say("pictures", before=shown.before, after=shown.event.last)
        link, picture = escape(self.link(shown)), escape(self.picture(shown))
        layer = escape(self._say("layer", layer=shown.layer.name))
        return (
            f'<p><a href="{link}"><img src="{picture}" alt="{escape(pictures)}"></a></p>'
            f'<p>{escape(pictures)}. <a href="{link}">{escape(self._say("compare"))}</a></p><p>{layer}</p>'
        )

    def identity(self, shown: LayerEvent) -> uuid.UUID:
        """Returns an event's identity, which stays the same in each viewer of the map, whatever later
        harvests add to the event. Each language has its own, so a reader of two feeds shows both entries."""
        event = shown.event
        named = [self.map, shown.layer.name, event.first.isoformat(), str(event.seed)]
        named += [self.language] if self.language != LANGUAGES[0] else []
        return uuid.uuid5(_NAMES, repr(tuple(named)))

    def _say(self, words: str, **values: object) -> str:
        shown = {name: printable(one) if isinstance(one, str) else one for name, one in values.items()}
        return _WORDS[self.language][words].format(**shown)

    def _place(self, layer: Layer, ground: Ground) -> str:
        middle = page_place(layer, self.outline.renderer, ground.middle)
        return self._say("place", place=place_in_words(*middle, self.language))


def feed(served: ServedMaps, map_name: str, form: str, viewer: str, query: Query) -> bytes:
    """Returns the feed of a map in one of the `FEEDS`. `viewer` is the address of the viewer's page, with a
    slash at its end. Raises RefusedError."""
    parameters = Parameters(query, (), ("layer", "ground", "language"))
    language = parameters.language(LANGUAGES)
    outline, found = recent_events(served, map_name, parameters)
    address = f"{viewer}api/v1/maps/{quote(map_name, safe='')}/{form}"
    asked = f"?{urlencode(query, safe=',')}" if query else ""
    layer = outline.layer(parameters.text("layer")) if "layer" in parameters else None
    ground = ground_in(parameters) if "ground" in parameters else None
    about = Feed(outline, viewer, address + asked, layer, ground, language)
    return atom(about, found) if form == "events.atom" else calendar(about, found)


def atom(feed: Feed, events: Sequence[LayerEvent]) -> bytes:
    """Returns the feed as Atom, with the newest events first."""
    shown = events[:MOST_ENTRIES]
    root = ET.Element("feed", {"xmlns": _ATOM, "xml:lang": feed.language})
    _add(root, "id", uuid.uuid5(_NAMES, feed.address.removeprefix(feed.viewer)).urn)
    _add(root, "title", feed.title)
    _add(root, "updated", _moment(shown[0].updated) if shown else _BEGAN)
    _add(root, "link", rel="self", type="application/atom+xml", href=feed.address)
    _add(
        root, "link", rel="alternate", type="text/html", href=f"{feed.viewer}#{urlencode({'map': feed.map})}"
    )
    _add(_add(root, "author"), "name", feed.map)
    _add(root, "generator", "TileHarvest")
    for one in shown:
        entry = _add(root, "entry")
        _add(entry, "id", feed.identity(one).urn)
        _add(entry, "title", feed.sentence(one))
        _add(entry, "updated", _moment(one.updated))
        _add(entry, "link", rel="alternate", type="text/html", href=feed.link(one))
        _add(entry, "category", term=one.event.kind)
        _add(entry, "content", feed.html(one), type="html")
    body: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return body


def calendar(feed: Feed, events: Sequence[LayerEvent]) -> bytes:
    """Returns the feed as a calendar. An event lasts from its first day to its last."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//TileHarvest//What is new//EN"]
    lines += ["CALSCALE:GREGORIAN", "METHOD:PUBLISH", f"X-WR-CALNAME:{_text(feed.title)}"]
    for one in events[:MOST_ENTRIES]:
        stamp = f"{one.updated.astimezone(UTC):%Y%m%dT%H%M%SZ}"
        lines += [
            "BEGIN:VEVENT",
            f"UID:{feed.identity(one)}",
            f"DTSTAMP:{stamp}",
            f"LAST-MODIFIED:{stamp}",
            f"DTSTART;VALUE=DATE:{one.event.first:%Y%m%d}",
            # RFC 5545 wants the day after the last one.
            f"DTEND;VALUE=DATE:{one.event.last + timedelta(days=1):%Y%m%d}",
            f"SUMMARY:{_text(feed.sentence(one))}",
            f"DESCRIPTION:{_text(feed.link(one))}",
            f"URL:{feed.link(one)}",
            f"CATEGORIES:{one.event.kind.upper()}",
            "TRANSP:TRANSPARENT",
            "END:VEVENT",
        ]
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line)).encode()


def _add(parent: ET.Element, name: str, text: str | None = None, **attributes: str) -> ET.Element:
    child = ET.SubElement(parent, name, attributes)
    # A site names its layers as it likes, and XML knows no control characters.
    child.text = None if text is None else _NO_XML.sub(" ", text)
    return child


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _text(text: str) -> str:
    """Returns a TEXT value (RFC 5545, section 3.3.11)."""
    escaped = text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
    return escaped.replace("\r\n", "\\n").replace("\n", "\\n")


def _folded(line: str) -> Iterator[str]:
    """Yields the parts of a line. A part has `_LINE` octets at most, and does not end within a character."""
    part = ""
    for sign in line:
        if len(f"{part}{sign}".encode()) > _LINE:
            yield part
            part = " "
        part += sign
    yield part
