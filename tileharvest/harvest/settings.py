"""The harvest, the segments and the times that settings and arguments ask for."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError, nearest, program
from tileharvest.harvest.due import Times
from tileharvest.harvest.harvest import Harvest
from tileharvest.harvest.holdings import Holdings
from tileharvest.history.settings import database_url
from tileharvest.maps.settings import described_map, switch
from tileharvest.politeness.settings import hours_without_requests
from tileharvest.queue.settings import segment_resolver
from tileharvest.renderers.registry import renderer_named
from tileharvest.store.port import DryStore
from tileharvest.store.settings import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

    from tileharvest.maps.description import MapDescription


ARGUMENTS: Final = ("map", "day", "segment", "dry", "fresh", "stay")
"""The names that a person may use after `-a`."""


def harvest_for(settings: BaseSettings, arguments: Mapping[str, str]) -> Harvest:
    """Returns the harvest that a spider's arguments ask for. Nothing is touched yet.

    `map` is the map's name. `day` is an ISO date, by default today; past states of a site are harvested with
    it one after the other. `segment` is the name of a resolver that replaces `every` of the map's entry and
    the setting SEGMENT. `dry=1` asks and reports but keeps nothing. `fresh=1` asks for everything again.

    Raises ConfigurationError, also for an unknown argument, because with a misspelt `dry` a harvest would
    write. Arguments that begin with `_` belong to other programs, such as scrapyd's `_job`, and are ignored.
    """
    for name in arguments:
        if name not in ARGUMENTS and not name.startswith("_"):
            hint = nearest(name, ARGUMENTS, f"there are {', '.join(ARGUMENTS)}")
            raise ConfigurationError(f"-a {name}={arguments[name]}: '{name}' is not known; {hint}")
    map_name = arguments.get("map")
    if not map_name:
        raise ConfigurationError(f"which map? say -a map=NAME; `{program()} maps` lists them")
    description = described_map(settings, map_name)
    started = datetime.now(UTC)
    day = day_of(description, arguments.get("day"), started)
    # For a past day, which has no time of its own, the segment is that in which the day began.
    moment = started
    if day != started.astimezone(description.zone_info).date():
        moment = datetime(day.year, day.month, day.day, tzinfo=description.zone_info)
    said = arguments.get("segment")
    every = description.segment if said is None else said
    resolver = segment_resolver(settings, every, description.zone_info, started)
    dry = switch(arguments, "dry", "a dry run")
    # Parsed now, so that a mistake is reported before anything is touched.
    url, store = database_url(settings), open_store(settings)
    if description.renderer:
        renderer_named(description.renderer)
    # `stay` is read by the scheduler. It is checked here, because then it is too late for one clear line.
    switch(arguments, "stay", "a spider that waits for requests")
    return Harvest(
        description,
        day=day,
        segment=resolver(moment),
        again=dry or switch(arguments, "fresh", "asking again for everything"),
        holdings=Holdings(url, DryStore(), map_name) if dry else Holdings(url, store),
        clock=partial(datetime.now, description.zone_info),
    )


def times_for(settings: BaseSettings, description: MapDescription, now: datetime) -> Times:
    """Returns what decides when the map is due. Raises ConfigurationError, also for segments without an
    end."""
    segments = segment_resolver(settings, description.segment, description.zone_info, now)
    if segments(now).ends is None:
        raise ConfigurationError(
            f"map '{description.name}' is never due: its segment has no end; write every = \"1d\" into its"
            " entry, or set SEGMENT to day"
        )
    return Times(description, segments, hours_without_requests(settings, description))


def day_of(description: MapDescription, day: str | None, started: datetime) -> date:
    """Returns the day of that name, or the present one in the map's time zone without a name.

    Raises ConfigurationError for a day that has not begun.
    """
    today = started.astimezone(description.zone_info).date()
    if day is None:
        return today
    try:
        wanted = date.fromisoformat(day)
    except ValueError:
        raise ConfigurationError(f"{day} is not a day: write it as {today}") from None
    if wanted > today:
        raise ConfigurationError(
            f"{day} has not begun: today is {today} in the map's time zone, {description.timezone}"
        )
    return wanted
