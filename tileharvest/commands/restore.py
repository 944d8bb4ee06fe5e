"""`scrapy restore NAME FOLDER --day DAY`: the files of the map's site as they were on a day."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from tileharvest.commands.export_command import announce, progress
from tileharvest.commands.project_command import ProjectCommand
from tileharvest.commands.terminal import write_json, write_line
from tileharvest.errors import ExitStatus, counted
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.settings import described_map

if TYPE_CHECKING:
    import argparse
    from datetime import date

    from scrapy.settings import BaseSettings

    from tileharvest.export.restored_tree import Restored


class Command(ProjectCommand, ScrapyCommand):
    form = "[options] NAME FOLDER"
    summary = "Restore the files of a map's site as they were on a day"
    details = (
        "Each file has the bytes that the site sent, and its time. FOLDER must not be there, or be empty."
        " What the history lacks is told. Exit status: 0 done, 1 error, 2 wrong usage, 3 some images could"
        " not be read and are left out."
    )
    arguments = range(2, 3)
    usage = "say which map, and where to: scrapy {word} NAME FOLDER --day 2024-05-01"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--day", help="as it was at the end of this day (default: the last harvest's)")

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        from tileharvest.export.excerpt import day_of
        from tileharvest.export.restored_tree import PastSite, restore
        from tileharvest.history.outlines import map_outline
        from tileharvest.history.settings import open_history_for_reading
        from tileharvest.store.settings import open_store_for_reading

        name, folder = args[0], Path(args[1])
        description = described_map(settings, name)
        with open_history_for_reading(settings) as history:
            outline = map_outline(history, name)
            day = day_of(outline, opts.day)
            past = PastSite.on(history, description, outline, day)
            tiles, size = past.weight()
            what = f"{counted(tiles, 'tile')}, {bytes_in_words(size)}"
            announce(f"{folder}: {name}, {day}: {what}", as_json=opts.json)
            with progress(settings, name, as_json=opts.json) as watch:
                restored = restore(past, open_store_for_reading(settings), folder, watch)
        if restored.missing:
            self.exitcode = ExitStatus.FAILED_TILES
        if opts.json:
            write_json({"map": name, "day": day.isoformat(), "folder": str(folder), **restored.as_plain()})
            return
        for line in _in_words(folder, day, restored):
            write_line(line)


def _in_words(folder: Path, day: date, restored: Restored) -> list[str]:
    told = f"{counted(restored.tiles, 'tile')} of {day}, {counted(len(restored.files), 'configuration file')}"
    lines = [f"{folder}: {told}; {bytes_in_words(restored.bytes)}"]
    lines += [
        f"zoom {zoom} is composed and not the site's own: {counted(number, 'tile')}"
        for zoom, number in sorted(restored.composed.items())
    ]
    counts = (
        (restored.missing, "tile", "left out, with an image that cannot be read: see scrapy check-store"),
        (restored.elsewhere, "file", "left out, because the address is not below the map's page"),
        (restored.undated, "file", "with the present time, because the site did not send one"),
        (restored.later, "file", "with a later time, because the site wrote the same bytes again since"),
    )
    lines += [f"{counted(number, noun)} {what}" for number, noun, what in counts if number]
    return lines + restored.lacking
