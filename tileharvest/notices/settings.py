"""The targets and occasions of a map's notices, from its entry or else from the settings."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileharvest.errors import ConfigurationError
from tileharvest.maps.description import NOTICES
from tileharvest.maps.named_areas import load_areas, no_such_area
from tileharvest.maps.settings import areas_file, setting
from tileharvest.notices.delivery import HOW_TO_INSTALL, is_installed, parse_targets

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.notices.delivery import Target

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wishes:
    """The targets and occasions of a map's notices."""

    targets: tuple[Target, ...]
    occasions: tuple[str, ...]
    """Words of `NOTICES`."""
    viewer: str = ""
    """The address of the viewer, for links. If it is empty there are no links."""
    areas: tuple[NamedArea, ...] | None = None
    """The named areas whose changes are reported. None means the whole map."""


def wishes_for(settings: BaseSettings, description: MapDescription) -> Wishes | None:
    """Returns the targets and occasions of the map's notices, or None if there are no targets.

    The log says why a target is left out.
    """
    texts = description.notify
    if texts is None:
        texts = tuple(settings.getlist("NOTIFY", setting(settings, "NOTIFY")))
    if not texts:
        return None
    if not is_installed():
        _logger.warning("notices need Apprise: %s; this goes on without", HOW_TO_INSTALL)
        return None
    try:
        occasions = notice_occasions(settings, description)
    except ConfigurationError as error:
        _logger.warning("%s; this goes on without notices", error)
        return None
    targets, missing = parse_targets(texts, os.environ)
    if missing:
        reasons = ", ".join(missing)
        _logger.warning("an address to notify is left out: %s; this goes on without", reasons)
    if not targets:
        return None
    viewer = description.viewer or setting(settings, "VIEWER_URL")
    return Wishes(tuple(targets), occasions, viewer, _watched(settings, description))


def _watched(settings: BaseSettings, description: MapDescription) -> tuple[NamedArea, ...] | None:
    """Returns the areas that the map's entry names, or None if it names none. The log names missing
    ones."""
    if not description.areas:
        return None
    try:
        known = load_areas(areas_file(settings)).get(description.name, [])
    except ConfigurationError as error:
        _logger.warning("%s; this goes on without notices of areas", error)
        return ()
    for name in description.areas:
        if name not in {area.name for area in known}:
            reason = no_such_area(description.name, name, known)
            _logger.warning("an area to be watched is left out: %s; this goes on without", reason)
    return tuple(area for area in known if area.name in description.areas)


def notice_occasions(settings: BaseSettings, description: MapDescription) -> tuple[str, ...]:
    """Returns the occasions of messages about the map. Raises ConfigurationError."""
    occasions = description.on
    if occasions is None:
        occasions = tuple(settings.getlist("NOTIFY_ON", setting(settings, "NOTIFY_ON")))
    for one in occasions:
        if one not in NOTICES:
            raise ConfigurationError(f"NOTIFY_ON '{one}' is none of: {', '.join(NOTICES)}")
    return occasions
