"""`tileharvest restore NAME FOLDER --day DAY`: the files of the map's site as they were on a day."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from tileharvest.commands.export_command import DAY, ExportCommand
from tileharvest.commands.project_command import Answer
from tileharvest.errors import counted
from tileharvest.export.excerpt import day_of
from tileharvest.export.restored_tree import PastSite, restore
from tileharvest.history.outlines import map_outline
from tileharvest.history.settings import open_history_for_reading
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.settings import described_map
from tileharvest.store.settings import open_store


class Command(ExportCommand):
    arguments = "NAME FOLDER"
    summary = "Restore the files of a map's site as they were on a day"
    details = (
        "Each file has the bytes that the site sent, and its time. FOLDER must not be there, or be empty."
        " It says what the history lacks."
    )
    examples = ("my-server site", "my-server site --day 2024-05-01")
    options = DAY

    def answer(self, opts: Namespace) -> Answer:
        name, folder = opts.name, Path(opts.folder)
        description = described_map(self.settings, name)
        with open_history_for_reading(self.settings) as history:
            outline = map_outline(history, name)
            day = day_of(outline, opts.day)
            past = PastSite.on(history, description, outline, day)
            self.announce(opts, f"{folder}: {name}, {day}")
            with self.watch(opts) as watch:
                restored = restore(past, open_store(self.settings), folder, watch)
        result = {"map": name, "day": day.isoformat(), "folder": str(folder), **asdict(restored)}
        what = f"{counted(restored.tiles, 'tile')} of {day}"
        files = f"{counted(len(restored.files), 'configuration file')}; {bytes_in_words(restored.bytes)}"
        lines = [
            f"zoom {zoom} is composed and not the site's own: {counted(number, 'tile')}"
            for zoom, number in sorted(restored.composed.items())
        ]
        if restored.elsewhere:
            left_out = counted(restored.elsewhere, "file")
            lines.append(f"{left_out} left out, because the address is not below the map's page")
        lines += restored.lacking
        return self.report(result, restored.missing, f"{folder}: {what}, {files}", *lines)
