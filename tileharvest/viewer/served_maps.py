"""The maps that a viewer serves: the maps of `maps.toml` and those of the history."""

from __future__ import annotations

import logging
import threading
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tileharvest.errors import ConfigurationError, program
from tileharvest.history.outlines import NEVER_HARVESTED, MapOutline, brief_outlines, map_outline
from tileharvest.history.summaries import harvest_summaries
from tileharvest.maps.maps_file import maps_if_any, stamp_of
from tileharvest.maps.named_areas import load_areas
from tileharvest.viewer.replies import quoted, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline
    from tileharvest.history.summaries import HarvestSummary
    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.pictures.composer import Composer
    from tileharvest.store.port import TileStore

_log = logging.getLogger(__name__)

_AGE: Final = 2.0
"""Seconds for which a map's outline and harvests are used again. Reading an outline takes milliseconds, and
one screen needs it several times. Counting what an unfinished harvest has done reads all tiles of the map."""

_MOST_KEPT: Final = 1000
"""The most maps whose outlines and harvests are kept in memory."""

_Content = TypeVar("_Content")


def kept_for(
    age: float, make: Callable[..., _Content], clock: Callable[[], float] = time.monotonic
) -> Callable[..., _Content]:
    """Returns the function with a memory: within `age` seconds equal arguments give the same value again.

    It may be called by several threads. `clock` returns seconds and never goes back.
    """

    @lru_cache(_MOST_KEPT)
    def made(_: int, *arguments: Hashable) -> _Content:
        return make(*arguments)

    return lambda *arguments: made(int(clock() / age), *arguments)


class ServedMaps:
    """The maps that a viewer serves, with their histories. May be used by several threads.

    The methods raise HistoryError if the history cannot be read, and RefusedError for an unknown name."""

    def __init__(
        self,
        maps_file: Path,
        areas_file: Path,
        open_history: Callable[[], History | None],
        workers: Callable[[str], int],
        store: TileStore,
        composer: Composer,
        due: Callable[[MapDescription, History], datetime | None],
        only: Collection[str] = (),
    ) -> None:
        """`only` names the maps to serve. If it is empty all maps are served.

        `open_history` returns None until a harvest has begun a history. `workers` returns how many workers
        harvest the map of that name now. `due` returns when a map's next harvest begins, or None if it never
        does. `store` has the maps' images, and `composer` makes pictures of them.

        A missing file describes no maps or areas. Raises ConfigurationError for a mistake in a file, and for
        a name in `only` that neither `maps.toml` nor the history has.
        """
        self._maps_file = maps_file
        self._areas_file = areas_file
        self._read: dict[Path, tuple[object, Any]] = {}
        """By file: its stamp when it was read last, and its last right content."""
        self._named_areas()
        self._open_history = open_history
        self._opening = threading.Lock()
        self._opened: History | None = None
        self._workers = workers
        self._due = due
        self.store = store
        self.composer = composer
        self._briefs = kept_for(_AGE, brief_outlines)
        self._outlines = kept_for(_AGE, map_outline)
        self._summaries = kept_for(_AGE, self._harvests_in)
        self._only: frozenset[str] = frozenset()
        missing = sorted(set(only).difference(known := self.names()))
        if missing:
            there = ", ".join(f"'{name}'" for name in known) or "none yet"
            self.close()
            raise ConfigurationError(f"there is no map '{missing[0]}'; there are: {there}")
        self._only = frozenset(only)

    @property
    def history(self) -> History | None:
        """The history, or None if there is none yet. Raises HistoryError if it cannot be read."""
        with self._opening:
            if self._opened is None:
                self._opened = self._open_history()
            return self._opened

    def close(self) -> None:
        """Closes the history."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()

    def names(self) -> list[str]:
        """Returns the names of the maps: first those of `maps.toml` in its order, then those that only the
        history has."""
        every = dict.fromkeys([*self._maps(), *self._harvested()])
        return [name for name in every if not self._only or name in self._only]

    def described(self, name: str) -> MapDescription | None:
        """Returns the map's entry in `maps.toml`, or None if it has none any more, or is not served."""
        return self._maps().get(name) if self._serves(name) else None

    def outline(self, name: str) -> MapOutline:
        """Returns the outline of a map in the history. A map that was never harvested has one without days.

        Raises RefusedError for an unknown map, and names the maps that there are."""
        if not self._serves(name):
            there = ", ".join(map(quoted, self.names())) or f"none yet: `{program()} add NAME URL` adds one"
            raise unknown(f"there is no map {quoted(name)}; there are: {there}")
        history = self.history
        if history is None or name not in self._harvested():
            return MapOutline(name, (), ())
        return self._outlines(history, name)

    def harvests(self, name: str) -> tuple[list[HarvestSummary], int, datetime | None]:
        """Returns the map's harvests, oldest first, the number of workers that harvest it now, and the moment
        at which its next harvest is due, or None if that is not known."""
        days, history = self.outline(name).days, self.history
        return self._summaries(history, name) if history is not None and days else ([], 0, None)

    def _harvests_in(self, history: History, name: str) -> tuple[list[HarvestSummary], int, datetime | None]:
        described = self.described(name)
        due = self._due(described, history) if described else None
        return harvest_summaries(history, name), self._workers(name), due

    def layer(self, map_name: str, name: str) -> tuple[History, MapOutline, LayerOutline]:
        """Returns the history, the map's outline and the layer's outline. Raises RefusedError for an unknown
        layer, and names the layers that there are."""
        outline = self.outline(map_name)
        found = outline.layer(name)
        history = self.history
        if history is None or not outline.layers:
            raise unknown(
                f"map '{map_name}' was never harvested: `{program()} harvest {map_name}` begins its history"
            )
        if found is None:
            there = ", ".join(quoted(layer.name) for layer in outline.layers)
            raise unknown(f"map '{map_name}' has no layer {quoted(name)}; it has: {there}")
        return history, outline, found

    def brief(self, name: str) -> dict[str, Any]:
        """Returns what `brief_outlines` says of a map. Costs next to nothing for each map."""
        return self._harvested().get(name, NEVER_HARVESTED)

    def areas(self, name: str) -> Sequence[NamedArea]:
        """Returns the map's named areas, in the file's order. Raises RefusedError as `outline` does."""
        if not self._serves(name):
            self.outline(name)
        return self._named_areas().get(name, ())

    def _serves(self, name: str) -> bool:
        is_known = name in self._maps() or name in self._harvested()
        return is_known and (not self._only or name in self._only)

    def _harvested(self) -> dict[str, dict[str, Any]]:
        history = self.history
        if history is None:
            return {}
        return self._briefs(history)

    def _maps(self) -> Mapping[str, MapDescription]:
        """Returns the maps of `maps.toml`, in its order."""
        return self._content_of(self._maps_file, maps_if_any)

    def _named_areas(self) -> Mapping[str, Sequence[NamedArea]]:
        return self._content_of(self._areas_file, load_areas)

    def _content_of(self, file: Path, load: Callable[[Path], _Content]) -> _Content:
        """Returns the content of a file, which is read again when it has changed. If it has become wrong, its
        last right content counts, and the log says why. Raises ConfigurationError if it never was right."""
        stamp, known = stamp_of(file), self._read.get(file)
        if known is None or known[0] != stamp:
            try:
                known = stamp, load(file)
            except ConfigurationError as error:
                if known is None:
                    raise
                _log.warning("%s; until then it counts as it was before", error)
                known = stamp, known[1]
            self._read[file] = known
        content: _Content = known[1]
        return content
