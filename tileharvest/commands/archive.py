"""`tileharvest archive NAME FILE`: all tiles of a day in one file, for other programs."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from tileharvest.commands.export_command import DAY, FILE, PLACE, ExportCommand
from tileharvest.commands.project_command import Answer, value
from tileharvest.errors import counted
from tileharvest.export.archive import Archived, write_archive
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.store.settings import open_store


class Command(ExportCommand):
    arguments = "NAME FILE"
    summary = "Put all tiles of a day into one file: PMTiles, MBTiles or a zip"
    details = "FILE ends with .pmtiles, .mbtiles or .zip; a file of that name is replaced."
    examples = ("my-server today.pmtiles", "my-server deep.zip --zooms=-3..0")
    options = {**PLACE, **DAY, **FILE, "--zooms": value("such as -5..0 (default: all)")}

    def answer(self, opts: Namespace) -> Answer:
        path = Path(opts.file)
        with self.excerpt(opts) as excerpt:
            store = open_store(self.settings)
            with self.watch(opts) as watch:
                done = write_archive(excerpt, path, opts.zooms, store, watch, opts.max_bytes)
        whose = {"map": opts.name, "layer": excerpt.layer.name, "day": excerpt.last.isoformat()}
        result = {**whose, "file": str(path), **asdict(done)}
        return self.report(result, done.missing, _in_words(path, done))


def _in_words(path: Path, done: Archived) -> str:
    first, last = done.zooms
    words = f"{path}: {counted(done.tiles, 'tile')} of zooms {first} to {last}, {bytes_in_words(done.bytes)}"
    return words + (f"; {done.composed:,} composed of deeper ones" if done.composed else "")
