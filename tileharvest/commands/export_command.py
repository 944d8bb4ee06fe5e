"""The base of the commands that export, and what these commands share."""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tileharvest.commands.progress import ProgressLine
from tileharvest.commands.project_command import ProjectCommand
from tileharvest.commands.settings import progress_interval
from tileharvest.commands.terminal import console, say, stopped_by_signals, write_answer
from tileharvest.errors import ConfigurationError, ExitStatus, counted
from tileharvest.maps.budgets import parse_size
from tileharvest.maps.maps_file import maps_if_any
from tileharvest.maps.named_areas import load_areas
from tileharvest.maps.settings import areas_file, maps_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.mosaic import Sheet
    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.tiles.zones import Zone


class ExportCommand(ProjectCommand):
    """A command that writes a file or a folder of an excerpt of a map. It only reads history and store."""

    has_zoom = True
    """Whether the command has the option --zoom."""
    has_picture = False
    """Whether the command makes a picture, with options for its size and background."""
    has_day = True
    """Whether the command has the option --day."""
    has_file = True
    """Whether the command makes a file, with the option --max-bytes."""
    has_period = False
    """Whether the command has the options --from and --to."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.set_defaults(day=None, first=None, last=None)
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
        if self.has_picture:
            parser.add_argument("--max-pixels", type=int, help="choose the deepest zoom with at most so many")
            parser.add_argument("--background", help="a colour behind the map, such as black (default: none)")
        if self.has_period:
            parser.add_argument("--from", dest="first", help="the first day (default: that of the history)")
            parser.add_argument("--to", dest="last", help="the last day (default: that of the history)")
        if self.has_day:
            parser.add_argument("--day", help="the day that it shows (default: that of the last harvest)")
        if self.has_file:
            parser.add_argument(
                "--max-bytes", type=size_of, metavar="SIZE", help="stop beyond this size of the file: 50MB"
            )

    @contextmanager
    def excerpt(self, settings: BaseSettings, name: str, opts: argparse.Namespace) -> Iterator[Excerpt]:
        """Opens the history, and yields the excerpt that the options ask for. Raises TileHarvestError."""
        from tileharvest.export.excerpt import Wanted, excerpt_of
        from tileharvest.history.settings import open_history_for_reading

        wanted = Wanted(opts.layer, opts.area, opts.day, opts.first, opts.last, self.has_period)
        with open_history_for_reading(settings) as history:
            yield excerpt_of(history, name, wanted, zones_of(settings, name), areas_of(settings, name))

    def tell(self, told: dict[str, Any], words: str, damaged: int, *, as_json: bool) -> None:
        """Writes what was made. If images of tiles could not be read, the exit status says so, too."""
        if damaged:
            words += f"; {damaged_in_words(damaged)}"
            self.exitcode = ExitStatus.FAILED_TILES
        write_answer({**told, "damaged": damaged}, words, as_json=as_json)


def check_quality(quality: int | None) -> None:
    """Raises ConfigurationError for a quality that no picture has."""
    if quality is not None and not 1 <= quality <= 100:
        raise ConfigurationError(f"--quality {quality} cannot be: write 1 to 100, such as 90")


def zoom_of(excerpt: Excerpt, zoom: int | None) -> int | None:
    """Returns the zoom that was asked for, if any. Raises ConfigurationError if it has no images."""
    zooms = excerpt.zooms()
    if zoom is not None and zoom not in zooms:
        raise ConfigurationError(
            f"--zoom {zoom}: layer '{excerpt.layer.name}' has zooms {zooms[0]} to {zooms[-1]} on"
            f" {excerpt.last}"
        )
    return zoom


def stopped(what: str) -> str:
    """Returns the message of a command that a signal has ended. `what` says how much was made."""
    return f"stopped: {what}, and what was there before is as it was"


@contextmanager
def progress(
    settings: BaseSettings, name: str, *, as_json: bool, said: str = stopped("nothing was made")
) -> Iterator[ProgressLine]:
    """Shows the progress on stderr while the block runs. Must be called in the main thread.

    SIGINT and SIGTERM end the block with a TileHarvestError, whose message is `said`. The block then removes
    what it has begun.
    """
    line = ProgressLine(name, console(sys.stderr), progress_interval(settings), as_json=as_json)
    with stopped_by_signals(said), line as shown:
        yield shown


def picture_of(
    excerpt: Excerpt, path: Path, opts: argparse.Namespace
) -> tuple[Sheet, tuple[int, int, int] | None]:
    """Returns the picture that the options ask for, and its background. Raises TileHarvestError for a picture
    that cannot be made."""
    from tileharvest.export.mosaic import sheet_of
    from tileharvest.export.picture_file import background_of

    if opts.max_pixels is not None and opts.max_pixels < 1:
        raise ConfigurationError(f"--max-pixels {opts.max_pixels} leaves nothing to draw")
    sheet = sheet_of(excerpt, path, zoom_of(excerpt, opts.zoom), opts.max_pixels)
    background = None
    if opts.background is not None or sheet.format.is_opaque:
        background = background_of(opts.background, excerpt.described.background)
    announce(f"{path}: {sheet.in_words()}", as_json=opts.json)
    return sheet, background


def size_of(text: str) -> int:
    """Returns the bytes of a size such as 50MB, for argparse."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def damaged_in_words(tiles: int) -> str:
    """Returns the words for so many tiles whose images cannot be read."""
    return f"images of {counted(tiles, 'tile')} cannot be read: scrapy check-store names them"


def announce(what: str, *, as_json: bool) -> None:
    """Says what will be made. Programs are told with the result itself."""
    if not as_json:
        say(what)


def zones_of(settings: BaseSettings, name: str) -> Sequence[Zone]:
    """Returns the zones of the map's entry, and none for a map that is only in the history."""
    described = entry_of(settings, name)
    return () if described is None else described.zones


def entry_of(settings: BaseSettings, name: str) -> MapDescription | None:
    """Returns the map's entry, or None for a map that is only in the history."""
    return maps_if_any(maps_file(settings)).get(name)


def areas_of(settings: BaseSettings, name: str) -> dict[str, NamedArea]:
    """Returns the named areas of a map, by their names. Raises ConfigurationError."""
    return {area.name: area for area in load_areas(areas_file(settings)).get(name, [])}
