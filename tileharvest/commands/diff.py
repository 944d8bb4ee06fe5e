"""`scrapy diff NAME DAY1 DAY2 [FILE...]`: what has changed on a map between two days."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand

from tileharvest.commands.export_command import (
    ExportCommand,
    damaged_in_words,
    picture_of,
    progress,
    stopped,
)
from tileharvest.commands.terminal import say, write_json, write_line
from tileharvest.errors import ConfigurationError, ExitStatus, TileHarvestError
from tileharvest.maps.budgets import bytes_in_words

if TYPE_CHECKING:
    import argparse
    from collections import Counter
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.mosaic import Sheet
    from tileharvest.export.target import Watch
    from tileharvest.pictures.changed_tiles import Change
    from tileharvest.store.port import TileStore


class Command(ExportCommand, ScrapyCommand):
    form = "[options] NAME DAY1 DAY2 [FILE...]"
    summary = "Show what changed between two days, as a picture and a list"
    details = (
        "A FILE that ends with .png, .jpg, .webp, .avif or .tif is a picture: what has changed in its"
        " colours, all else faded, new and gone tiles outlined. One that ends with .json, .csv or .geojson is"
        " a list of the changed tiles with their blocks. Without a FILE it is told how many there are. Exit"
        " status: 0 done, 1 error, 2 wrong usage, 3 some images could not be read and are left blank."
    )
    arguments = range(3, 100)
    usage = "say which map and which days: scrapy {word} NAME 2024-01-01 2024-02-01 [FILE...]"
    has_picture = True
    has_day = False

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        from tileharvest.export.difference import LISTS, Differences, write_list
        from tileharvest.export.picture_file import format_of
        from tileharvest.store.settings import open_store_for_reading

        name, opts.first, opts.last, *names = args
        paths = [Path(one) for one in names]
        pictures = [path for path in paths if path.suffix.lower() not in LISTS]
        for path in pictures:
            format_of(path)
        _expect_folders(paths)
        with self.excerpt(settings, name, opts) as excerpt:
            # All pictures are planned before the first file, so that a mistake leaves no file.
            store = open_store_for_reading(settings)
            drawn = {path: picture_of(excerpt, path, opts) for path in pictures}
            counts = Differences(excerpt).count()
            told: dict[str, Any] = {
                "map": name,
                "layer": excerpt.layer.name,
                "first": excerpt.first.isoformat(),
                "last": excerpt.last.isoformat(),
                **{change.value: number for change, number in counts.items()},
                "files": [],
            }
            lines = [_in_words(excerpt, counts)]
            for place, path in enumerate(paths):
                made = _made(paths[:place])
                said = stopped(f"{made}, {path} was not" if made else "nothing was made")
                try:
                    with progress(settings, name, as_json=opts.json, said=said) as watch:
                        if path in drawn:
                            file = self._picture(store, path, drawn[path], watch, opts.max_bytes)
                        else:
                            size = write_list(excerpt, path, watch, opts.max_bytes)
                            file = {"file": str(path), "bytes": size}
                except TileHarvestError as error:
                    # The message of a signal names the files already.
                    if not made or str(error) == said:
                        raise
                    raise TileHarvestError(f"{error}; {made}", exit_status=error.exit_status) from error
                told["files"].append(file)
                lines.append(f"{path}: {bytes_in_words(file['bytes'])}")
        if opts.json:
            write_json(told)
        else:
            for line in lines:
                write_line(line)

    def _picture(
        self,
        store: TileStore,
        path: Path,
        drawn: tuple[Sheet, tuple[int, int, int] | None],
        watch: Watch,
        most_bytes: int | None,
    ) -> dict[str, Any]:
        """Writes a picture. Returns what programs are told of it."""
        from tileharvest.export.difference import write_difference

        sheet, background = drawn
        written, damaged = write_difference(sheet, path, store, watch, background, most_bytes=most_bytes)
        if damaged:
            self.exitcode = ExitStatus.FAILED_TILES
            say(damaged_in_words(damaged))
        size = {"width": sheet.box.width, "height": sheet.box.height, "zoom": sheet.zoom}
        return {"file": str(path), "bytes": written, **size, "damaged": damaged}


def _expect_folders(paths: Sequence[Path]) -> None:
    """Raises ConfigurationError if the folder of a file is missing, before any file is written."""
    for path in paths:
        if not path.parent.is_dir():
            raise ConfigurationError(
                f"{path} cannot be made: there is no folder {path.parent}; nothing was made: make the folder,"
                " or name another"
            )


def _made(paths: Sequence[Path]) -> str:
    """Returns the words for files that were made, or an empty text if there are none."""
    return f"{', '.join(map(str, paths))} {'was' if len(paths) == 1 else 'were'} made" if paths else ""


def _in_words(excerpt: Excerpt, counts: Counter[Change]) -> str:
    found = ", ".join(f"{number:,} {change.value}" for change, number in sorted(counts.items(), key=_order))
    return f"{excerpt.in_words()}: {found or 'no tile is another one'}"


def _order(item: tuple[Change, int]) -> str:
    return item[0].value
