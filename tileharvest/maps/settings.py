"""The project's files and maps, as the settings name them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.utils.conf import closest_scrapy_cfg

from tileharvest.errors import ConfigurationError
from tileharvest.maps.maps_file import find_map, load_maps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

    from tileharvest.maps.description import MapDescription


def setting(settings: BaseSettings, name: str) -> Any:
    """Returns the value of one of our settings. If the project does not have it, because it only uses our
    scheduler, the value of `tileharvest/settings.py` counts. The addresses of Redis are read elsewhere."""
    # Loaded here, because that module reads the environment, which a project's own settings may change first.
    from tileharvest import settings as defaults  # noqa: PLC0415

    value = settings.get(name)
    return getattr(defaults, name) if value is None else value


def data_folder(settings: BaseSettings) -> Path:
    """Returns the folder for history, store and queues. It need not exist."""
    return _from_project(setting(settings, "TILEHARVEST_DATA"))


def areas_file(settings: BaseSettings) -> Path:
    """Returns the file of named areas. It need not exist."""
    return data_folder(settings) / "areas.toml"


def maps_file(settings: BaseSettings) -> Path:
    """Returns the file that describes the maps. It need not exist."""
    return _from_project(setting(settings, "TILEHARVEST_MAPS"))


def all_maps(settings: BaseSettings) -> dict[str, MapDescription]:
    """Returns all maps by name. Raises ConfigurationError as `load_maps` does."""
    return load_maps(maps_file(settings))


def described_map(settings: BaseSettings, name: str) -> MapDescription:
    """Returns the map of that name. Raises ConfigurationError, which names the maps that exist."""
    return find_map(maps_file(settings), name)


def _from_project(path: str) -> Path:
    """Returns the path. A relative path starts at the project's folder, or else at the present folder."""
    given = Path(path)
    # To ask for the present folder is a system call, and a harvest asks many times.
    return given if given.is_absolute() else _project_folder(Path.cwd()) / given


@lru_cache(maxsize=1)
def _project_folder(present: Path) -> Path:
    """Returns the folder of `scrapy.cfg`, or else the present folder. Cached, because the search takes a
    dozen system calls, and a harvest asks many times."""
    configuration = closest_scrapy_cfg()
    return Path(configuration).parent if configuration else present


def switch(arguments: Mapping[str, str], name: str, meaning: str) -> bool:
    """Returns whether a spider's argument is 1. Raises ConfigurationError unless it is 0, 1 or missing, and
    says: write -a NAME=1 for MEANING."""
    value = arguments.get(name, "0")
    if value not in ("0", "1"):
        raise ConfigurationError(f"-a {name}={value} cannot be: write -a {name}=1 for {meaning}")
    return value == "1"
