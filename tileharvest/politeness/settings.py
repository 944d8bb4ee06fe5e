"""The rules of politeness for a map, from the settings and `maps.toml`."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from scrapy.settings import SETTINGS_PRIORITIES

from tileharvest.errors import ConfigurationError
from tileharvest.maps.budgets import Budget, parse_size
from tileharvest.maps.description import HostEntry
from tileharvest.maps.maps_file import load_hosts, maps_at
from tileharvest.maps.rates import NO_DELAY, Delay, parse_rate
from tileharvest.maps.settings import maps_file, setting
from tileharvest.maps.times import QuietHours, is_whole_day
from tileharvest.politeness.outages import OutageLimits
from tileharvest.politeness.rules import Rules, most_generous

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from tileharvest.maps.description import MapDescription

_OF_SCRAPY: Final = ("AUTOTHROTTLE_ENABLED", "ROBOTSTXT_OBEY")
_COMMAND_LINE: Final = SETTINGS_PRIORITIES["cmdline"]


def rules_for(settings: BaseSettings, description: MapDescription) -> Rules:
    """Returns the rules of a map. Each comes from the command line (`-s DELAY=0.5`), else from the map's
    entry, else from a setting.

    Raises ConfigurationError, which names the setting, also for a setting that `outage_limits` reads.
    """
    outage_limits(settings)
    file = maps_file(settings)
    maps = maps_at(file, description.host) if file.exists() else [description]
    host_concurrency, host_gap = _limits(settings, description.host, most_generous(maps))
    said = partial(_said, settings)
    hours_without_requests(settings, description)
    return Rules(
        host=description.host,
        concurrency=description.concurrency,
        gap=said("DELAY", description.gap, _gap),
        host_concurrency=host_concurrency,
        host_gap=host_gap,
        beside=partial(_limits_beside, settings, description),
        autothrottle=said("AUTOTHROTTLE_ENABLED", description.autothrottle, _truth),
        quiet=said("QUIET_HOURS", description.quiet, _hours),
        quiet_gap=said("QUIET_RATE", _rate(description.quiet_rate), _rate),
        budget=said("BUDGET", description.budget, _budget),
        daily_budget=said("DAILY_BUDGET", description.daily_budget, _budget),
        min_free=said("MIN_FREE", _size(description.min_free), _size),
        robots=said("ROBOTSTXT_OBEY", description.robots, _truth),
        user_agents=user_agents(settings, description),
    )


def hours_without_requests(settings: BaseSettings, description: MapDescription) -> tuple[QuietHours, ...]:
    """Returns the quiet hours in which the map's site is not asked at all. Raises ConfigurationError, also if
    they are the whole day.

    This reads no other map of the host.
    """
    if _said(settings, "QUIET_RATE", _rate(description.quiet_rate), _rate):
        return ()
    hours: tuple[QuietHours, ...] = _said(settings, "QUIET_HOURS", description.quiet, _hours)
    if is_whole_day(hours):
        said = " and ".join(map(str, hours))
        raise ConfigurationError(
            f"map '{description.name}': its quiet hours, {said}, are the whole day, so that nothing would"
            " ever be asked; leave some of it out, or write a quiet_rate"
        )
    return hours


def _limits_beside(settings: BaseSettings, description: MapDescription, host: str) -> tuple[int, Delay]:
    """Returns the concurrency and the gap of a host that a map asks although its page lies elsewhere. If the
    host has no map of its own, the concurrency is that of the map that asks."""
    maps = maps_at(maps_file(settings), host)
    generous = most_generous(maps, beside=True) if maps else (description.concurrency, NO_DELAY)
    return _limits(settings, host, generous)


def _limits(settings: BaseSettings, host: str, generous: tuple[int, Delay]) -> tuple[int, Delay]:
    """Returns the concurrency and the gap of a host: those that a person has set, or else the `generous`
    ones. Raises ConfigurationError."""
    of_table = load_hosts(maps_file(settings)).get(host, HostEntry())
    concurrency = _said(settings, "HOST_CONCURRENCY", of_table.concurrency, _number)
    gap = _said(settings, "HOST_DELAY", of_table.gap, _gap)
    return concurrency or generous[0], gap or generous[1]


def outage_limits(settings: BaseSettings) -> OutageLimits:
    """Returns when a host is probed and given up. Raises ConfigurationError, which names the settings."""
    names = ("HOST_DOWN_AFTER", "HOST_DOWN_PAUSE", "HOST_DOWN_LONGEST_PAUSE", "HOST_DOWN_PATIENCE")
    after, pause, longest, patience = (_said(settings, name, None, float) for name in names)
    try:
        return OutageLimits(int(after), pause, longest, patience)
    except (OverflowError, ValueError):
        said = ", ".join(f"{name} {setting(settings, name)!r}" for name in names)
        raise ConfigurationError(
            f"{said} cannot be: the first is at least 1, the second above 0 and not above the third, the last"
            " not below 0"
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


def _said(settings: BaseSettings, name: str, of_map: Any, read: Callable[[Any], Any]) -> Any:
    if of_map is not None and (settings.getpriority(name) or 0) < _COMMAND_LINE:
        return of_map
    value = settings[name] if name in _OF_SCRAPY else setting(settings, name)
    try:
        return read(_plain(value))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{name} {value!r} cannot be: {error}") from None


def _plain(value: Any) -> Any:
    """Returns a value as a settings file has it. On the command line and in the environment it is a text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _gap(value: Any) -> Delay:
    if isinstance(value, str) and value:
        raise ValueError("write seconds, such as 0.5 or [0.2, 0.8]")
    return NO_DELAY if not value else Delay.of(value)


def _number(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError("write for example 4, or 0 for no limit")
    return number


def _truth(value: Any) -> bool:
    if value not in (True, False, "True", "False", "", None):
        raise ValueError("write True or False")
    return value in (True, "True")


def _hours(value: Any) -> tuple[QuietHours, ...]:
    several = [value] if isinstance(value, str) else value or ()
    return tuple(QuietHours.parse(one) for one in several if one)


def _budget(value: Any) -> Budget:
    try:
        return msgspec.convert(value, Budget) if value else Budget()
    except msgspec.ValidationError as error:
        raise ValueError(f'{error}; write for example {{"requests": 20000, "bytes": "500 MB"}}') from None


def _rate(value: str | None) -> Delay | None:
    return parse_rate(value) if value else None


def _size(value: Any) -> int | None:
    return parse_size(value) if value else None
