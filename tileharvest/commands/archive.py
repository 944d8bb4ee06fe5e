"""`tileharvest archive NAME FILE`: all tiles of a day in one file, for other programs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand

from tileharvest.commands.export_command import DAY, FILE, PLACE, ExportCommand
from tileharvest.commands.project_command import value
from tileharvest.commands.terminal import say, write_json, write_line
from tileharvest.errors import ConfigurationError, ExitStatus, counted, program
from tileharvest.maps.budgets import bytes_in_words

if TYPE_CHECKING:
    from argparse import Namespace

    from tileharvest.export.archive import Archived
    from tileharvest.export.excerpt import Excerpt


class Command(ExportCommand, ScrapyCommand):
    arguments = "NAME FILE"
    summary = "Put all tiles of a day into one file: PMTiles, MBTiles or a zip"
    details = (
        "FILE ends with .pmtiles, .mbtiles or .zip; a file of that name is replaced. With --every there is"
        " a file for each day, whose name has the day. Exit status: 0 done, 1 error, 2 wrong usage, 3 some"
        " images could not be read and are left out."
    )
    examples = ("my-server today.pmtiles", "my-server week.zip --every 7 --zooms=-3..0")
    options = {
        **PLACE,
        **DAY,
        **FILE,
        "--zooms": value("such as -5..0 (default: all)"),
        "--every": value("a file for every n-th harvest's day", int, metavar="N"),
        "--days": value("with --every, of these days: 2024-01-01..2024-12-31 (default: all)"),
    }

    def check(self, opts: Namespace) -> None:
        if opts.every is not None and opts.every < 1:
            raise ConfigurationError(f"--every {opts.every} cannot be: write 1 or more, such as 7")
        if opts.every is not None and opts.day is not None:
            raise ConfigurationError("--every takes --days, and not --day")
        if opts.days is not None and opts.every is None:
            raise ConfigurationError("--days needs --every, such as --every 7; of one day say --day")

    def answer(self, opts: Namespace) -> None:
        from tileharvest.export.archive import ArchivePlan, write_archive
        from tileharvest.store.settings import open_store_for_reading

        made: list[dict[str, Any]] = []
        with self.excerpt(opts) as excerpt:
            days, empty = _of_days(excerpt, Path(opts.file), opts)
            if empty:
                has = "has" if empty == 1 else "have"
                say(f"nothing was there in this area on {counted(empty, 'day')}, which {has} no file")
            # All plans are made before the first file, so that a mistake leaves no file.
            plans = [(ArchivePlan.of(one, target, opts.zooms), target) for one, target in days]
            for place, (plan, path) in enumerate(plans):
                self.announce(opts, f"{path}: {plan.in_words()}")
                with self.watch(opts, [target for _, target in plans[:place]]) as watch:
                    store = open_store_for_reading(self.settings)
                    done = write_archive(plan, path, store, watch, opts.max_bytes)
                if done.missing:
                    self.exitcode = ExitStatus.FAILED_TILES
                if not opts.json:
                    write_line(_in_words(path, done))
                whose = {"map": opts.name, "layer": excerpt.layer.name, "day": plan.excerpt.last.isoformat()}
                made.append({**whose, "file": str(path), **done.as_plain()})
        if opts.json:
            write_json(made if opts.every is not None else made[0])


def _of_days(excerpt: Excerpt, path: Path, opts: Namespace) -> tuple[list[tuple[Excerpt, Path]], int]:
    """Returns the excerpts to archive, each with its file, and the number of days that had nothing yet.

    The last day is always among the chosen days. Raises ConfigurationError if none of them had anything.
    """
    from tileharvest.export.excerpt import nothing_there, period_of

    if opts.every is None:
        return [(excerpt, path)], 0
    first, last = period_of(excerpt.map, opts.days)
    days = [day for day in excerpt.map.days if first <= day <= last and excerpt.layer.kept_zooms(day)]
    if not days:
        raise ConfigurationError(
            f"--days {opts.days}: the layer had no tile on any of them; nothing was made"
        )
    every = [dataclasses.replace(excerpt, first=day, last=day) for day in sorted(days[:: -opts.every])]
    found = [one for one in every if one.box(one.zooms()[0]) is not None]
    if not found:
        raise nothing_there(every[-1])
    return [(one, path.with_stem(f"{path.stem}-{one.last}")) for one in found], len(every) - len(found)


def _in_words(path: Path, done: Archived) -> str:
    first, last = done.zooms
    words = f"{path}: {counted(done.tiles, 'tile')} of zooms {first} to {last}, {bytes_in_words(done.bytes)}"
    counts = {
        "composed of deeper ones": done.composed,
        f"packed anew as {done.kind}, as there are other kinds of images": done.packed_anew,
        f"missing or not whole, as images cannot be read: see {program()} check-store": done.missing,
    }
    return "; ".join([words, *(f"{number:,} {what}" for what, number in counts.items() if number)])
