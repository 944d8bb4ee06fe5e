"""The maps that a viewer serves: those of `maps.toml` and those of the history, as they are now."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tileharvest.errors import ConfigurationError
from tileharvest.history.outlines import MapOutline, map_names, map_outline, map_state
from tileharvest.maps.maps_file import load_maps
from tileharvest.viewer.replies import quoted, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping
    from pathlib import Path

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline
    from tileharvest.maps.description import MapDescription

_log = logging.getLogger(__name__)

OUTLINE_AGE: Final = 1.0
"""Seconds for which a map's outline is used again: one screen asks for it dozens of times. It changes when a
harvest begins. Replies that a client may keep for ever need no newer one, because days are only added."""

_Value = TypeVar("_Value")


class TimedCache(Generic[_Value]):
    """Values that are used again for some seconds. May be used by several threads.

    Two threads that ask at once may both make a value. No key is ever forgotten, so there must be few.
    """

    def __init__(self, age: float, clock: Callable[[], float]) -> None:
        """`clock` gives seconds and never goes back."""
        self._age = age
        self._clock = clock
        self._made: dict[Hashable, tuple[float, _Value]] = {}

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        now = self._clock()
        known = self._made.get(key)
        if known is not None and now - known[0] < self._age:
            return known[1]
        value = make()
        self._made[key] = now, value
        return value


class MapsFile:
    """`maps.toml`, read again when it has changed. A file that is missing describes no maps."""

    def __init__(self, file: Path) -> None:
        """Raises ConfigurationError as `load_maps` does."""
        self._file = file
        self._state = self._look()
        self._described = self._read()

    def described(self) -> Mapping[str, MapDescription]:
        """Returns the maps in the file's order; while the file is wrong, those that it described before."""
        state = self._look()
        if state != self._state:
            self._state = state
            try:
                self._described = self._read()
            except ConfigurationError as error:
                _log.warning("%s; until then it counts as it was before", error)
        return self._described

    def _look(self) -> tuple[int, int] | None:
        try:
            status = self._file.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size

    def _read(self) -> Mapping[str, MapDescription]:
        # Not `_look`: a file that is there and cannot be read is to be one clear line.
        return load_maps(self._file) if self._file.exists() else {}


class LazyHistory:
    """The history, once a harvest has begun one. May be used by several threads."""

    def __init__(self, opening: Callable[[], History | None]) -> None:
        """`opening` returns None while no harvest has begun a history."""
        self._opening = opening
        self._lock = threading.Lock()
        self._history: History | None = None

    def get(self) -> History | None:
        """Returns the history, or None while there is none. Raises HistoryError while it cannot be read."""
        with self._lock:
            if self._history is None:
                self._history = self._opening()
            return self._history

    def close(self) -> None:
        with self._lock:
            if self._history is not None:
                self._history.close()


@dataclass(frozen=True, slots=True)
class MapEntry:
    """A map as the list of maps has it."""

    description: MapDescription | None
    """None for a map that is in `maps.toml` no longer."""
    outline: MapOutline
    """It has no days for a map that was never harvested."""


class ServedMaps:
    """The maps and their outlines. May be used by several threads.

    Its methods raise HistoryError, or RefusedError for an unknown name.
    """

    def __init__(
        self,
        maps_file: MapsFile,
        history: LazyHistory,
        only: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`only` names the maps to serve; without names all are served.

        Raises ConfigurationError for a map that neither `maps.toml` nor the history has.
        """
        self._maps_file = maps_file
        self._history = history
        self._names: TimedCache[list[str]] = TimedCache(OUTLINE_AGE, clock)
        self._outlines: TimedCache[MapOutline] = TimedCache(OUTLINE_AGE, clock)
        self._newest: dict[str, tuple[tuple[object, ...], MapOutline]] = {}
        """Each with the state it is of. An outline takes milliseconds, so only a new state gets a new one."""
        self._only: frozenset[str] = frozenset()
        missing = sorted(set(only).difference(known := self.names()))
        if missing:
            there = ", ".join(f"'{name}'" for name in known) or "none yet"
            raise ConfigurationError(
                f"there is no map '{missing[0]}', neither described nor harvested; there are: {there}"
            )
        self._only = frozenset(only)

    @property
    def history(self) -> History | None:
        return self._history.get()

    def names(self) -> list[str]:
        """Returns the described maps in the order of `maps.toml`, then those that only the history has."""
        every = dict.fromkeys([*self._maps_file.described(), *self._harvested()])
        return [name for name in every if not self._only or name in self._only]

    def entry(self, name: str) -> MapEntry:
        """Raises RefusedError, naming the maps that there are."""
        if name not in (names := self.names()):
            there = ", ".join(map(quoted, names)) or "none yet: `scrapy add NAME URL` adds one"
            raise unknown(f"there is no map {quoted(name)}; there are: {there}")
        return MapEntry(self._maps_file.described().get(name), self._outline(name))

    def layer(self, map_name: str, name: str) -> tuple[History, MapOutline, LayerOutline]:
        """Returns the history, the map's outline and the layer's. Raises RefusedError, naming the layers."""
        outline = self.entry(map_name).outline
        found = next((layer for layer in outline.layers if layer.name == name), None)
        history = self.history
        if history is None or not outline.layers:
            raise unknown(
                f"map '{map_name}' was never harvested: `scrapy harvest {map_name}` begins its history"
            )
        if found is None:
            there = ", ".join(quoted(layer.name) for layer in outline.layers)
            raise unknown(f"map '{map_name}' has no layer {quoted(name)}; it has: {there}")
        return history, outline, found

    def _harvested(self) -> list[str]:
        history = self.history
        return [] if history is None else self._names.get(None, lambda: map_names(history))

    def _outline(self, name: str) -> MapOutline:
        history = self.history
        if history is None or name not in self._harvested():
            return MapOutline(name, (), ())
        return self._outlines.get(name, lambda: self._newest_outline(history, name))

    def _newest_outline(self, history: History, name: str) -> MapOutline:
        # Asked first: a change between the two questions is then seen the next time.
        state = map_state(history, name)
        known = self._newest.get(name)
        if known is None or known[0] != state:
            known = self._newest[name] = state, map_outline(history, name)
        return known[1]
