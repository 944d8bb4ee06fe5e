"""`scrapy archive NAME FILE`: all tiles of a day in one file, for other programs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand

from tileharvest.commands.export_command import ExportCommand, announce, progress, stopped
from tileharvest.commands.terminal import say, write_json, write_line
from tileharvest.errors import ConfigurationError, ExitStatus, TileHarvestError, counted
from tileharvest.maps.budgets import bytes_in_words

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.export.archive import Archived, ArchivePlan
    from tileharvest.export.excerpt import Excerpt


class Command(ExportCommand, ScrapyCommand):
    form = "[options] NAME FILE"
    summary = "Put all tiles of a day into one file: PMTiles, MBTiles or a zip"
    details = (
        "FILE ends with .pmtiles, .mbtiles or .zip; a file of that name is replaced. With --every there is"
        " a file for each day, whose name has the day. Exit status: 0 done, 1 error, 2 wrong usage, 3 some"
        " images could not be read and are left out."
    )
    arguments = range(2, 3)
    usage = "say which map, and the file: scrapy {word} NAME FILE"
    has_zoom = False

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--zooms", help="such as -5..0 (default: all)")
        parser.add_argument("--every", type=int, metavar="N", help="a file for every n-th harvest's day")
        parser.add_argument(
            "--days", help="with --every, of these days: 2024-01-01..2024-12-31 (default: all)"
        )

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        name, path = args[0], Path(args[1])
        if opts.every is not None and opts.every < 1:
            raise ConfigurationError(f"--every {opts.every} cannot be: write 1 or more, such as 7")
        if opts.every is not None and opts.day is not None:
            raise ConfigurationError("--every takes --days, and not --day")
        if opts.days is not None and opts.every is None:
            raise ConfigurationError("--days needs --every, such as --every 7; of one day say --day")
        from tileharvest.export.archive import ArchivePlan

        made: list[dict[str, Any]] = []
        with self.excerpt(settings, name, opts) as excerpt:
            days, empty = _of_days(excerpt, path, opts)
            if empty:
                left = f"which {_have(empty)} no file"
                say(f"nothing was there in this area on {counted(empty, 'day')}, {left}")
            # All plans are made before the first file, so that a mistake leaves no file.
            plans = [(ArchivePlan.of(one, target, opts.zooms), target) for one, target in days]
            try:
                for plan, target in plans:
                    made.append(self._write(settings, plan, target, opts, len(made)))
            except TileHarvestError as error:
                if not made:
                    raise
                if opts.json:
                    write_json(made)
                words = f"{error}; {counted(len(made), 'file')} made before {_have(len(made))} stayed"
                raise TileHarvestError(words, exit_status=error.exit_status) from error
        if opts.json:
            write_json(made if opts.every is not None else made[0])

    def _write(
        self, settings: BaseSettings, plan: ArchivePlan, path: Path, opts: argparse.Namespace, before: int
    ) -> dict[str, Any]:
        """Writes an archive, after `before` others. Returns what programs are told of it."""
        from tileharvest.export.archive import write_archive
        from tileharvest.store.settings import open_store_for_reading

        excerpt = plan.excerpt
        announce(f"{path}: {plan.in_words()}", as_json=opts.json)
        said = stopped(f"{path} was not made" if before else "nothing was made")
        with progress(settings, excerpt.map.name, as_json=opts.json, said=said) as watch:
            done = write_archive(plan, path, open_store_for_reading(settings), watch, opts.max_bytes)
        if done.missing:
            self.exitcode = ExitStatus.FAILED_TILES
        if not opts.json:
            write_line(_in_words(path, done))
        day = excerpt.last.isoformat()
        told = {"map": excerpt.map.name, "layer": excerpt.layer.name, "day": day, "file": str(path)}
        return {**told, **done.as_plain()}


def _of_days(
    excerpt: Excerpt, path: Path, opts: argparse.Namespace
) -> tuple[list[tuple[Excerpt, Path]], int]:
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


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _in_words(path: Path, done: Archived) -> str:
    first, last = done.zooms
    words = f"{path}: {counted(done.tiles, 'tile')} of zooms {first} to {last}, {bytes_in_words(done.bytes)}"
    counts = {
        "composed of deeper ones": done.composed,
        f"packed anew as {done.kind}, as there are other kinds of images": done.packed_anew,
        "missing or not whole, as images cannot be read: see scrapy check-store": done.missing,
    }
    return "; ".join([words, *(f"{number:,} {what}" for what, number in counts.items() if number)])
