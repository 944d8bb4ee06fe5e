"""Who is told about a map, and when: its own keys, or else the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.errors import ConfigurationError
from tileharvest.maps.description import NOTICES
from tileharvest.maps.settings import setting

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from tileharvest.maps.description import MapDescription


def notice_targets(settings: BaseSettings, description: MapDescription) -> tuple[str, ...]:
    """Returns where messages about the map go."""
    return tuple(
        settings.getlist("NOTIFY", setting(settings, "NOTIFY"))
        if description.notify is None
        else description.notify
    )


def notice_occasions(settings: BaseSettings, description: MapDescription) -> tuple[str, ...]:
    """Returns on which occasions they go out. Raises ConfigurationError."""
    occasions = tuple(
        settings.getlist("NOTIFY_ON", setting(settings, "NOTIFY_ON"))
        if description.on is None
        else description.on
    )
    for one in occasions:
        if one not in NOTICES:
            raise ConfigurationError(f"NOTIFY_ON '{one}' is none of: {', '.join(NOTICES)}")
    return occasions
