"""The rules of politeness for a map, from the settings and `maps.toml`."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from scrapy.settings import SETTINGS_PRIORITIES

from tileharvest.errors import ConfigurationError
from tileharvest.maps.budgets import Budget, parse_size
from tileharvest.maps.description import EXAMPLES, HostEntry
from tileharvest.maps.maps_file import load_hosts, maps_at
from tileharvest.maps.rates import NO_DELAY, Delay, parse_rate
from tileharvest.maps.settings import maps_file, setting
from tileharvest.maps.times import QuietHours, is_whole_day
from tileharvest.politeness.outages import OutageLimits
from tileharvest.politeness.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

    from tileharvest.maps.description import MapDescription

_Entry = TypeVar("_Entry", "MapDescription", HostEntry)

_OF_MAPS: Final = {
    "delay": "DELAY",
    "autothrottle": "AUTOTHROTTLE_ENABLED",
    "quiet_hours": "QUIET_HOURS",
    "quiet_rate": "QUIET_RATE",
    "budget": "BUDGET",
    "daily_budget": "DAILY_BUDGET",
    "min_free": "MIN_FREE",
    "robots": "ROBOTSTXT_OBEY",
}
"""By key of a map's entry: the setting that counts for maps without it."""
_OF_HOSTS: Final = {"concurrency": "HOST_CONCURRENCY", "delay": "HOST_DELAY"}
"""The same for the entry of a host."""


def rules_for(settings: BaseSettings, description: MapDescription) -> Rules:
    """Returns the rules of a map. Each comes from the command line (`-s DELAY=0.5`), else from the map's
    entry, else from a setting.

    Raises ConfigurationError, which names the setting, also for a setting that `outage_limits` reads.
    """
    outage_limits(settings)
    entry = _completed(settings, description, _OF_MAPS)
    limits_at = cache(partial(_limits_at, settings, description))
    # A mistake is reported now.
    limits_at(description.host)
    hours_without_requests(settings, description)
    return Rules(
        host=description.host,
        concurrency=description.concurrency,
        gap=entry.gap or NO_DELAY,
        limits_at=limits_at,
        autothrottle=bool(entry.autothrottle),
        quiet=entry.quiet or (),
        quiet_gap=parse_rate(entry.quiet_rate) if entry.quiet_rate else None,
        budget=entry.budget or Budget(),
        daily_budget=entry.daily_budget or Budget(),
        min_free=parse_size(entry.min_free) if entry.min_free else None,
        robots=bool(entry.robots),
        user_agents=user_agents(settings, description),
    )


def hours_without_requests(settings: BaseSettings, description: MapDescription) -> tuple[QuietHours, ...]:
    """Returns the quiet hours in which the map's site is not asked at all. Raises ConfigurationError, also if
    they are the whole day.

    This reads no other map of the host.
    """
    entry = _completed(settings, description, {key: _OF_MAPS[key] for key in ("quiet_hours", "quiet_rate")})
    hours = () if entry.quiet_rate else entry.quiet or ()
    if is_whole_day(hours):
        said = " and ".join(map(str, hours))
        raise ConfigurationError(
            f"map '{description.name}': its quiet hours, {said}, are the whole day, so that nothing would"
            " ever be asked; leave some of it out, or write a quiet_rate"
        )
    return hours


def _limits_at(settings: BaseSettings, description: MapDescription, host: str) -> tuple[int, Delay]:
    """Returns the concurrency and the gap of a host for all of its maps together. Raises ConfigurationError.

    Unless a person has set them, they are those of its most generous map. With a single map the host has no
    gap, because the map has its own. Otherwise a rate set by hand could never be faster. If the map asks
    another host, that has the gap of its single map, too. If that has no map of its own, the concurrency is
    that of the map that asks.
    """
    file = maps_file(settings)
    entry = _completed(settings, load_hosts(file).get(host, HostEntry()), _OF_HOSTS)
    maps = maps_at(file, host)
    gaps = [(one.gap or NO_DELAY).least for one in maps]
    generous = Delay.of(min(gaps)) if len(gaps) > (host == description.host) else NO_DELAY
    most = max((one.concurrency for one in maps), default=description.concurrency)
    return entry.concurrency or most, entry.gap or generous


def outage_limits(settings: BaseSettings) -> OutageLimits:
    """Returns when a host is probed and given up. Raises ConfigurationError, which names the settings."""
    names = ("HOST_DOWN_AFTER", "HOST_DOWN_PAUSE", "HOST_DOWN_LONGEST_PAUSE", "HOST_DOWN_PATIENCE")
    said = [setting(settings, name) for name in names]
    try:
        after, *seconds = map(float, said)
        return OutageLimits(int(after), *seconds)
    except (OverflowError, TypeError, ValueError):
        shown = ", ".join(f"{name} {value!r}" for name, value in zip(names, said, strict=True))
        raise ConfigurationError(
            f"{shown} cannot be: the first is at least 1, the second above 0 and not above the third, the"
            " last not below 0"
        ) from None


def user_agents(settings: BaseSettings, description: MapDescription) -> tuple[str, ...]:
    """Returns the user agents that a person has listed, or else the program's name with the contact of the
    person who uses it."""
    own = description.user_agents or tuple(settings.getlist("USER_AGENTS", setting(settings, "USER_AGENTS")))
    if own:
        return own
    # Loaded here, because that module reads the environment, which a project's own settings may change first.
    from tileharvest.settings import USER_AGENT  # noqa: PLC0415

    # A project that does not say its name has that of this program, and not Scrapy's.
    agent = settings["USER_AGENT"] if settings.getpriority("USER_AGENT") else USER_AGENT
    general = setting(settings, "CONTACT")
    contact = description.contact or (general if "(" not in agent else "")
    return (f"{agent} (+{contact})" if contact and contact not in agent else agent,)


def _completed(settings: BaseSettings, entry: _Entry, names: Mapping[str, str]) -> _Entry:
    """Returns an entry with the values of these settings for keys that it does not have, or that the command
    line sets. Raises ConfigurationError, which names the setting."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(entry)}
    for key, name in names.items():
        has_own = getattr(entry, key) is not None or (key == "delay" and entry.gap is not None)
        value = setting(settings, name)
        is_by_hand = (settings.getpriority(name) or 0) >= SETTINGS_PRIORITIES["cmdline"]
        if not is_by_hand and (has_own or not value):
            continue
        also = {"requests_per_second": None} if key == "delay" else {}
        plain = value
        # On the command line and in the environment a value is a text.
        with suppress(TypeError, ValueError):
            plain = json.loads(value)
        try:
            said = msgspec.convert(plain, kinds[key], strict=False) if plain else None
            entry = msgspec.structs.replace(entry, **{key: said}, **also)
        except (msgspec.ValidationError, ValueError) as error:
            is_of_kind = not isinstance(error, msgspec.ValidationError)
            hint = "" if is_of_kind else f"; write for example {EXAMPLES[key]}"
            raise ConfigurationError(f"{name} {value!r} cannot be: {error}{hint}") from None
    return entry
