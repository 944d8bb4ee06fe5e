"""Puts a viewer together."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from tileharvest.pictures.composer import Composer
from tileharvest.viewer.application import Application
from tileharvest.viewer.composed import ComposedPictures
from tileharvest.viewer.harvests import Harvests
from tileharvest.viewer.page_files import page_files
from tileharvest.viewer.served import LazyHistory, MapsFile, ServedMaps

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from tileharvest.history.database import History
    from tileharvest.store.port import TileStore


@contextmanager
def viewer(
    maps_file: Path,
    open_history: Callable[[], History | None],
    store: TileStore,
    workers: Callable[[str], int],
    only: Collection[str] = (),
) -> Iterator[Application]:
    """An application over these, which only reads, until the block ends.

    `open_history` gives None while there is none; `workers` tells how many harvest a map now;
    `only` names the maps to serve, none: all. Raises ConfigurationError for names or a file that cannot
    be, HistoryError for a history that cannot be read.
    """
    with closing(LazyHistory(open_history)) as history:
        served = ServedMaps(MapsFile(maps_file), history, only)
        composed = ComposedPictures(served, Composer(store))
        application = Application(served, store, Harvests(workers), composed, page_files())
        try:
            yield application
        finally:
            application.close()
