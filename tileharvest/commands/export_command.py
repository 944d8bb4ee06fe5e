"""What the commands have in common that make something of a map for use elsewhere."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tileharvest.commands.map_command import MapCommand
from tileharvest.commands.progress import ProgressLine
from tileharvest.commands.settings import progress_interval
from tileharvest.commands.terminal import console, say
from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.export.excerpt import Wanted, excerpt_of
from tileharvest.history.settings import open_history_for_reading
from tileharvest.maps.maps_file import load_maps
from tileharvest.maps.named_areas import load_areas
from tileharvest.maps.settings import areas_file, maps_file

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from scrapy.settings import BaseSettings

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.tiles.zones import Zone


class ExportCommand(MapCommand):
    """A command that makes a file or a folder of an excerpt of a map. It only reads history and store."""

    has_zoom = True
    """Whether a person may choose the zoom."""
    has_day = True
    """Whether it is of one day, which is an option."""
    has_period = False
    """Whether it is of a period, whose first and last day are options."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--layer", help="this layer (default: the map's first)")
        parser.add_argument(
            "--area",
            help="two corners in blocks, such as --area=-100,-50,100,50, a named area, zone or zone:2 of"
            " maps.toml, or whole (default)",
        )
        if self.has_zoom:
            parser.add_argument(
                "--zoom",
                type=int,
                help="0 is the deepest, -1 the next coarser (default: what fits)",
            )
        if self.has_period:
            parser.add_argument("--from", dest="first", help="the first day (default: that of the history)")
            parser.add_argument("--to", dest="last", help="the last day (default: that of the history)")
        if self.has_day:
            parser.add_argument("--day", help="the day that it shows (default: that of the last harvest)")

    @contextmanager
    def excerpt(self, settings: BaseSettings, name: str, opts: argparse.Namespace) -> Iterator[Excerpt]:
        """Opens the history at what is asked for. Raises TileHarvestError."""
        wanted = Wanted(
            opts.layer,
            opts.area,
            getattr(opts, "day", None),
            getattr(opts, "first", None),
            getattr(opts, "last", None),
            self.has_period,
        )
        with open_history_for_reading(settings) as history:
            areas = load_areas(areas_file(settings)).get(name, [])
            named = {area.name: area for area in areas}
            yield excerpt_of(history, name, wanted, _zones(settings, name), named)


def zoom_of(excerpt: Excerpt, zoom: int | None) -> int | None:
    """Returns the zoom that was asked for, if any. Raises ConfigurationError where there are no images."""
    zooms = excerpt.zooms()
    if zoom is not None and zoom not in zooms:
        raise ConfigurationError(
            f"--zoom {zoom}: layer '{excerpt.layer.name}' has zooms {zooms[0]} to {zooms[-1]} on"
            f" {excerpt.last}"
        )
    return zoom


@contextmanager
def progress(settings: BaseSettings, name: str, *, as_json: bool) -> Iterator[ProgressLine]:
    """Shows the progress on stderr until the block ends, or a signal ends it. Call it in the main thread.

    SIGINT and SIGTERM raise TileHarvestError in the block, so that whatever it has begun is removed.
    """

    def stop(number: int, frame: Any) -> None:
        for which in before:
            # The clean-up is short, and is not to be interrupted.
            signal.signal(which, signal.SIG_IGN)
        raise TileHarvestError("stopped: nothing was made, and what was there before is as it was")

    before = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)}
    for which in before:
        signal.signal(which, stop)
    try:
        with ProgressLine(name, console(sys.stderr), progress_interval(settings), as_json=as_json) as line:
            yield line
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def damaged_in_words(tiles: int) -> str:
    """Returns what is said of tiles that are not shown whole."""
    return f"{tiles:,} tiles are not whole, as images cannot be read: scrapy verify names them"


def foretell(what: str, *, as_json: bool) -> None:
    """Says how large the result will be, before it is begun; programs are told with the result."""
    if not as_json:
        say(what)


def _zones(settings: BaseSettings, name: str) -> Sequence[Zone]:
    """Returns the zones of the map's entry; none for one that is only in the history."""
    file = maps_file(settings)
    described = load_maps(file).get(name) if file.exists() else None
    return () if described is None else described.zones
