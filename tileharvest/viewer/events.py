"""The viewer's events: those of a period, and those of the last months for feeds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from tileharvest.errors import ConfigurationError
from tileharvest.history.events import certainty, events
from tileharvest.tiles.ground import Ground
from tileharvest.viewer.parameters import Parameters, bounds_in_world, ground_in
from tileharvest.viewer.replies import RefusedError, wrong

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from tileharvest.history.events import Certainty
    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.tiles.events import Event
    from tileharvest.viewer.parameters import Query
    from tileharvest.viewer.served_maps import ServedMaps

MOST_DAYS: Final = 366
MOST_EVENTS: Final = 1000
_EVENTS: Final = 100
MONTHS: Final = 3
"""The months with a harvest that a feed covers."""


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
    first, last = parameters.day("from"), parameters.day("to")
    if last < first:
        raise wrong(f"to={last} is before from={first}")
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
    served: ServedMaps, map_name: str, parameters: Parameters
) -> tuple[MapOutline, list[LayerEvent]]:
    """Returns the events of the map's last months with a harvest for a feed, newest first.

    Each month is clustered by itself, so that an event is the same in each answer. Days to which harvests
    still add are left out. If no `layer` is asked for, the first layer of each world counts, as the others
    show the same ground, for example by night. Raises RefusedError.
    """
    outline = served.outline(map_name)
    layers = outline.layers
    if "layer" in parameters:
        layers = (served.layer(map_name, parameters.text("layer"))[2],)
    ground = ground_in(parameters) if "ground" in parameters else None
    found: list[LayerEvent] = []
    worlds: set[str] = set()
    for layer in layers:
        described = layer.described(outline.days[-1])
        if described.world in worlds:
            continue
        if described.world is not None:
            worlds.add(described.world)
        for first, last in months(outline.days):
            found += _of_layer(served, outline, layer, first, last, ground, is_settled=True)[0]
    return outline, sorted(
        found, key=lambda one: (one.updated, one.event.first, one.event.tiles, one.event.seed), reverse=True
    )


def months(days: Sequence[date]) -> Iterator[tuple[date, date]]:
    """Yields the first and the last day of the last `MONTHS` months that have one of the days."""
    firsts = sorted({day.replace(day=1) for day in days})
    for first in firsts[-MONTHS:]:
        yield first, (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


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
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"{error}: ask for fewer days") from None
    shown = [
        LayerEvent(event, layer, outline.day_before(event.first) or event.first, sure.ended[event.last])
        for event in found
    ]
    return [one for one in shown if ground is None or one.ground.touches(ground)], sure


def _as_plain(shown: LayerEvent, outline: MapOutline) -> dict[str, Any]:
    event, area = shown.event, shown.event.area
    edges = {name: getattr(area, name) for name in ("zoom", "x_from", "x_to", "y_from", "y_to")}
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
