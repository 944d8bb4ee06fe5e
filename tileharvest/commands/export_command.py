"""The base of the commands that export, and what these commands share."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from scrapy.settings import BaseSettings

from tileharvest.commands.progress import ProgressLine
from tileharvest.commands.project_command import Answer, Options, ProjectCommand, number, value
from tileharvest.commands.terminal import say, stopped_by_signals
from tileharvest.errors import ConfigurationError, ExitStatus, counted, program
from tileharvest.export.excerpt import Excerpt, excerpt_of
from tileharvest.export.mosaic import Sheet, sheet_of
from tileharvest.history.settings import open_history_for_reading
from tileharvest.maps.budgets import parse_size
from tileharvest.maps.named_areas import NamedArea, load_areas
from tileharvest.maps.settings import areas_file
from tileharvest.pictures.pixels import background_of


def size_of(text: str) -> int:
    """Returns the bytes of a size such as 50MB, for argparse."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


PLACE: Final[Options] = {
    "--layer": value("this layer (default: the map's first)"),
    "--area": value("two corners, such as --area=-100,-50,100,50, a named area, or whole (default)"),
}
ZOOM: Final[Options] = {"--zoom": value("0 is the deepest, -1 the next coarser (default: what fits)", int)}
DAY: Final[Options] = {"--day": value("the day that it shows (default: that of the last harvest)")}
PICTURE: Final[Options] = {
    "--max-pixels": value("take the deepest zoom with at most this many", number(int, 1)),
    "--background": value("a colour behind the map, such as black (default: none)"),
}
FILE: Final[Options] = {"--max-bytes": value("stop beyond this size: 50MB", size_of, metavar="SIZE")}


class ExportCommand(ProjectCommand):
    """A command that writes a file or a folder of an excerpt of a map. It only reads history and store."""

    __module__ = ProjectCommand.__module__
    has_period: ClassVar[bool] = False
    """Whether it shows more than one day."""

    def check(self, opts: Namespace) -> None:
        given = getattr(opts, "file", None) or []
        for path in map(Path, [given] if isinstance(given, str) else given):
            if not path.parent.is_dir():
                raise ConfigurationError(
                    f"{path} cannot be made: there is no folder {path.parent}; nothing was made: make the"
                    " folder, or name another"
                )

    @contextmanager
    def excerpt(self, opts: Namespace) -> Iterator[Excerpt]:
        """Opens the history, and yields the excerpt that the options ask for. Raises TileHarvestError."""
        names = ("layer", "area", "day", "first")
        wanted = {name: getattr(opts, name, None) for name in names}
        areas = areas_of(self.settings, opts.name)
        with open_history_for_reading(self.settings) as history:
            yield excerpt_of(history, opts.name, areas, **wanted, is_period=self.has_period)

    @contextmanager
    def watch(self, opts: Namespace, made: Sequence[Path] = ()) -> Iterator[ProgressLine]:
        """Shows the progress on stderr while the block runs. Must be called in the main thread.

        SIGINT and SIGTERM end the block with a StoppedError that names the files that were `made` before. The
        block then removes what it has begun.
        """
        before = f"{', '.join(map(str, made))} made" if made else "nothing was made"
        said = f"stopped: {before}, and what was there before is as it was"
        with stopped_by_signals(said), ProgressLine(opts.name, is_shown=not opts.json) as shown:
            yield shown

    def announce(self, opts: Namespace, what: str) -> None:
        """Says what will be made. Programs read it with the result itself."""
        if not opts.json:
            say(what)

    def report(self, result: dict[str, Any], unreadable: int, words: str, *more: str) -> Answer:
        """Returns what was made. If images could not be read, the exit status says so, too."""
        if unreadable:
            words += f"; {counted(unreadable, 'image')} cannot be read: see {program()} check-store"
            self.exitcode = ExitStatus.FAILED_TILES
        return result, [words, *more]

    def picture_of(
        self, opts: Namespace, excerpt: Excerpt, path: Path
    ) -> tuple[Sheet, tuple[int, int, int] | None]:
        """Returns the picture that the options ask for, and its background. Raises TileHarvestError for a
        picture that cannot be made."""
        sheet = sheet_of(excerpt, path, zoom_of(excerpt, opts.zoom), opts.max_pixels)
        background = None
        if opts.background is not None or sheet.format.is_opaque:
            background = background_of(opts.background, excerpt.described.background)
        self.announce(opts, f"{path}: {sheet.in_words()}")
        return sheet, background


def zoom_of(excerpt: Excerpt, zoom: int | None) -> int | None:
    """Returns the zoom that was asked for, if any. Raises ConfigurationError if it has no images."""
    zooms = excerpt.zooms()
    if zoom is not None and zoom not in zooms:
        raise ConfigurationError(
            f"--zoom {zoom}: layer '{excerpt.layer.name}' has zooms {zooms[0]} to {zooms[-1]} on"
            f" {excerpt.last}"
        )
    return zoom


def areas_of(settings: BaseSettings, name: str) -> dict[str, NamedArea]:
    """Returns the named areas of a map, by their names. Raises ConfigurationError."""
    return {area.name: area for area in load_areas(areas_file(settings)).get(name, [])}
