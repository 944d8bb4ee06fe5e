"""The file `maps.toml`: reading it, and adding a map to it."""

from __future__ import annotations

import json
import re
import tomllib
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from tileharvest.errors import ConfigurationError, TileHarvestError, nearest, program
from tileharvest.maps.description import EXAMPLES, HostEntry, MapDescription
from tileharvest.maps.regions import with_tiles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_Stamp: TypeAlias = "tuple[int, int, int, int] | None"

_MAP_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)

_HOST_NAME: Final = re.compile(r"[^\s/:@\[\]]+|(?=.*:.*:)[0-9a-fA-F:.]+")
"""A host in the form that stands between scheme and port of an address. The second form is IPv6."""

HOSTS: Final = "hosts"
"""The one table of `maps.toml` that is not a map: `[hosts."map.example.net"]`."""


_Content: TypeAlias = (
    "tuple[dict[str, MapDescription], dict[str, HostEntry], dict[str, list[MapDescription]]]"
)
"""The maps by name, the hosts by name, and the maps by host."""


def load_hosts(file: Path) -> dict[str, HostEntry]:
    """Returns the entries of the file's table `[hosts]`, by the host's name, and none without a file. Raises
    ConfigurationError as `load_maps` does."""
    return dict(_read(file, stamp)[1]) if (stamp := stamp_of(file)) else {}


def load_maps(file: Path) -> dict[str, MapDescription]:
    """Returns all maps of the file by name, in the file's order.

    A file that has not changed since it was last read is not read again. Raises ConfigurationError, which
    names file, map and key, and shows a right value.
    """
    return dict(_read(file, stamp_of(file))[0])


def maps_if_any(file: Path) -> dict[str, MapDescription]:
    """Returns what `load_maps` does, and no map if there is no file."""
    return load_maps(file) if file.exists() else {}


def maps_at(file: Path, host: str) -> list[MapDescription]:
    """Returns the maps whose pages are at this host, and none without a file. After the first call the cost
    does not depend on the number of maps. Raises ConfigurationError as `load_maps` does."""
    return list(_read(file, stamp)[2].get(host, ())) if (stamp := stamp_of(file)) else []


def _hosts_of(file: Path, table: Any) -> dict[str, HostEntry]:
    """Raises ConfigurationError for a name that no host can have: such an entry would have no effect."""
    if not isinstance(table, dict) or not all(isinstance(entry, dict) for entry in table.values()):
        raise ConfigurationError(f'{file}: [{HOSTS}] holds hosts; write [{HOSTS}."map.example.net"]')
    hosts = {}
    for name, entry in table.items():
        if _HOST_NAME.fullmatch(name) is None:
            raise ConfigurationError(
                f"{file}: '{name}' is not a host; write its name alone, such as [{HOSTS}.\"map.example.net\"]"
            )
        try:
            hosts[name.lower()] = msgspec.convert(entry, HostEntry)
        except msgspec.ValidationError as error:
            raise ConfigurationError(
                f"{file}: host '{name}': {_in_words(str(error))}; a host can have:"
                f" {', '.join(HostEntry.__struct_fields__)}, and its name stands in quotes"
            ) from None
    return hosts


def stamp_of(file: Path) -> _Stamp:
    """Returns a value that changes whenever the file is written or replaced. Returns None if there is no
    file."""
    try:
        found = file.stat()
    except OSError:
        # Whoever reads the file says what is wrong with it.
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=1)
def _read(file: Path, _: _Stamp) -> _Content:
    try:
        # Editors of Windows begin a file with a mark that TOML does not know.
        entries = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigurationError(
            f"there is no {file}: `{program()} add NAME URL` writes one, or set TILEHARVEST_MAPS to yours"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}") from None
    hosts = _hosts_of(file, entries.pop(HOSTS, {}))
    maps = {name: _described(file, name, entry) for name, entry in entries.items()}
    by_host: dict[str, list[MapDescription]] = {}
    for described in maps.values():
        by_host.setdefault(described.host, []).append(described)
    return maps, hosts, by_host


def find_map(file: Path, name: str) -> MapDescription:
    """Returns the map of that name. Raises ConfigurationError as `load_maps` does, and for an unknown name,
    with the known ones."""
    maps = load_maps(file)
    if name not in maps:
        hint = nearest(name, maps, f"it has: {', '.join(maps) or 'none yet'}")
        raise ConfigurationError(f"{file} has no map '{name}'; {hint}")
    return maps[name]


def check_map_name(name: str) -> None:
    """Raises ConfigurationError for a text that cannot be a map's name. Names are typed in commands, and
    files are named by them."""
    if name == HOSTS:
        raise ConfigurationError(f"'{HOSTS}' cannot be a map's name: it is the table of what holds for hosts")
    if _MAP_NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"'{name}' cannot be a map's name: use letters, digits, '-', '_' and '.', such as my-server"
        )


def checked_entry(file: Path, name: str, entry: dict[str, Any]) -> MapDescription:
    """Returns the description of an entry that is not in the file yet. Raises ConfigurationError for a wrong
    entry, and if the file has a map of that name already."""
    check_map_name(name)
    if name in maps_if_any(file):
        raise ConfigurationError(f"{file} has a map '{name}' already; nothing was changed: take another name")
    return _described(file, name, entry)


def add_map(file: Path, name: str, entry: dict[str, Any]) -> None:
    """Appends an entry to the file, or begins the file.

    Values are texts, lists of texts or numbers, and tables of texts. The rest of the file stays as it is,
    comments included. A kill leaves either the old file or the new one. Raises ConfigurationError as
    `checked_entry` does, and TileHarvestError if the file cannot be written.
    """
    checked_entry(file, name, entry)
    # Read and written as bytes, which keeps the ends of lines.
    text = file.read_bytes().decode() if file.exists() else ""
    lines = [f"[{json.dumps(name)}]" if "." in name else f"[{name}]"]
    lines += [f"{key} = {_as_toml(value)}" for key, value in entry.items()]
    replace_file(file, with_entry(text, lines))


def with_entry(text: str, lines: Sequence[str]) -> str:
    """Returns the text with these lines appended as an entry of their own."""
    separator = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return text + separator + "\n".join(lines) + "\n"


def replace_file(file: Path, text: str) -> None:
    """Replaces the file. A kill leaves either the old file or the new one. Raises TileHarvestError if the
    file cannot be written."""
    part = file.with_name(f"{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(text.encode())
        part.replace(file)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise TileHarvestError(f"{file} cannot be written ({error}); nothing was changed") from None


def _as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_as_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_as_toml, value)) + "]"
    # A JSON string is a TOML basic string, and a list of them is a TOML array.
    return json.dumps(value, ensure_ascii=False)


def _described(file: Path, name: str, entry: Any) -> MapDescription:
    place = f"{file}: map '{name}'"
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{file}: '{name}' stands outside of a map; write [my-map] above it")
    try:
        check_map_name(name)
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from None
    for key in entry:
        if key not in EXAMPLES:
            hint = nearest(key, EXAMPLES, f"it can have: {', '.join(EXAMPLES)}")
            raise ConfigurationError(f"{place}: key '{key}' is not known; {hint}")
    if "url" not in entry:
        raise ConfigurationError(f"{place}: key 'url' is missing; write for example {EXAMPLES['url']}")
    try:
        return msgspec.convert({**with_tiles(entry), "name": name}, MapDescription)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{place}: {_in_words(str(error))}") from None
    except ValueError as error:
        raise ConfigurationError(f"{place}: key 'zones': {error}") from None


def _in_words(message: str) -> str:
    """Returns msgspec's message as a line that begins with the key and ends with an example.

    msgspec writes `Expected ..., got ... - at `$.key...``.
    """
    problem, _, where = message.partition(" - at `$")
    path = where.rstrip("`").lstrip(".")
    key = re.split(r"[.\[]", path, maxsplit=1)[0]
    if key not in EXAMPLES:
        return problem
    return f"key '{path}': {problem[:1].lower()}{problem[1:]}; write for example {EXAMPLES[key]}"
