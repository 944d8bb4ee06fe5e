"""`tileharvest import FORM SOURCE NAME`: a map's past from git, a folder or an archive."""  # noqa: N999 - the command's word

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from scrapy.settings import BaseSettings

from tileharvest.commands.progress import ProgressLine
from tileharvest.commands.project_command import Answer, ProjectCommand, switch, value
from tileharvest.commands.terminal import say, stopped_by_signals
from tileharvest.errors import ConfigurationError, ExitStatus, counted, nearest, program
from tileharvest.harvest.settings import day_of
from tileharvest.history.imported_day import DayRecord
from tileharvest.history.settings import open_history
from tileharvest.importers.imported_map import SOURCE, ImportedMap, import_folder, import_git
from tileharvest.importers.kedamadiff import ZONE, KedamaDiffArchive, import_kedamadiff
from tileharvest.importers.repository import SILENCE, Repository
from tileharvest.maps.description import GitEntry, MapDescription
from tileharvest.maps.maps_file import maps_if_any
from tileharvest.maps.settings import data_folder, described_map, maps_file
from tileharvest.monitoring.stats import outcomes_in_words
from tileharvest.store.settings import open_store
from tileharvest.tiles.outcomes import Outcome, counts_as_plain

_MOST_TOLD: Final = 10
"""The most lines about days that could not be read, and about missing images. `--json` names all of them."""


class ImportDisplay(ProgressLine):
    """Shows the progress of an import, and collects its results. It is an `ImportWatch`."""

    def __init__(self, name: str, *, is_shown: bool) -> None:
        super().__init__(name, is_shown=is_shown)
        self.days: dict[date, DayRecord] = {}
        self.unread: list[dict[str, str]] = []
        """The days that were left out, each with the problem, for programs."""
        self.missing: list[dict[str, str]] = []
        """The missing images: day, file and problem, for programs."""
        self.counts: Counter[Outcome] = Counter()
        """The outcomes of all days together."""

    def recorded(self, day: date, record: DayRecord) -> None:
        self.days[day] = record
        self.counts.update(record.counts)
        self.note = str(day)

    def left_out(self, day: date, why: str) -> None:
        self.unread.append({"day": str(day), "problem": why})
        if len(self.unread) <= _MOST_TOLD:
            self.write(f"{day} was left out: {why}")

    def lacks(self, day: date, file: str, why: str) -> None:
        self.missing.append({"day": str(day), "file": file, "problem": why})
        if len(self.missing) <= _MOST_TOLD:
            self.write(f"{day}: {file}: {why}")


class Command(ProjectCommand):
    arguments = "FORM SOURCE NAME"
    form = "git ADDRESS-OR-FOLDER NAME | folder FOLDER NAME --day DAY | kedamadiff FOLDER NAME"
    summary = "Import a map's past from git, a folder or a KedamaDiff archive"
    details = (
        "Each day on which the map was committed, or that the archive has, becomes a harvest of that day; a"
        " folder becomes one of --day. The map's entry in maps.toml says what is kept. To run it again"
        " imports only what is new."
    )
    examples = (
        "git https://github.com/owner/map my-server --path map",
        "folder ~/old-map my-server --day 2024-05-01",
    )
    options = {
        "--path": value("git: the map's folder in the repository (default: its top)"),
        "--branch": value("git: this branch (default: the one that a clone checks out)"),
        "--rewritten": switch("git: go on though the branch was rewritten since the last import"),
        "--day": value("folder: the day whose state it has, such as 2024-05-01"),
        "--savename": value("kedamadiff: the map's folder in an archive of several maps"),
        "--layer": value("kedamadiff: the layer that the archive is of"),
    }

    def answer(self, opts: Namespace) -> Answer:
        settings, name, forms = self.settings, opts.name, _FORMS
        if opts.form not in forms:
            hint = nearest(opts.form, forms, f"there are {', '.join(forms)}")
            raise ConfigurationError(f"nothing can be imported from '{opts.form}'; {hint}")
        for option, how in self.options.items():
            form = how["help"].partition(":")[0]
            if form != opts.form and getattr(opts, option.removeprefix("--")):
                raise ConfigurationError(f"{option} is for {program()} import {form}; nothing was changed")
        if name not in (maps := maps_if_any(maps_file(settings))):
            first = (
                f"write its entry there first, even if its site is gone: [{name}] and below it"
                ' url = "https://map.example.net/"'
            )
            raise ConfigurationError(
                f"{maps_file(settings)} has no map '{name}': {nearest(name, maps, first)}"
            )
        shown = ImportDisplay(name, is_shown=not opts.json)
        with stopped_by_signals("stopped: the days that were imported are kept; run it again to go on"):
            forms[opts.form](settings, described_map(settings, name), opts, shown)
        if shown.unread or shown.missing or shown.counts[Outcome.FAILED]:
            self.exitcode = ExitStatus.FAILED_TILES
        days = [
            {"day": day.isoformat(), "counts": counts_as_plain(one.counts), "left_out": one.left_out}
            for day, one in shown.days.items()
        ]
        result = {"map": name, "days": days, "unread": shown.unread, "missing": shown.missing}
        return result, _in_words(name, shown)


def _of_git(
    settings: BaseSettings, description: MapDescription, opts: Namespace, shown: ImportDisplay
) -> None:
    """Fetches a repository that is not a local folder, and imports it. Raises ConfigurationError and
    SiteError."""
    address = opts.source
    if Path(address).is_dir():
        repository, tip, folder = Repository.in_place(Path(address), opts.branch)
    else:
        try:
            entry = GitEntry(url=address, branch=opts.branch or "")
        except ValueError:
            raise ConfigurationError(
                f"{address} is neither a folder nor an address such as https://github.com/owner/map; nothing"
                " was changed"
            ) from None
        cache = data_folder(settings) / "git" / "import" / description.name
        repository, folder = Repository(cache, entry.url), ""
        say(f"fetching {repository.name}: this may take a while at first; {SILENCE} s of silence end it")
        tip = repository.fetch(opts.branch)
    path = folder if opts.path is None else opts.path

    now, zone = datetime.now(UTC), description.zone_info
    with shown, open_history(settings) as history:
        into = ImportedMap(description, history, open_store(settings), f"git {repository.origin}", now)
        work = import_git(into, repository, tip, path, zone, now, shown, rewritten=opts.rewritten)
        asyncio.run(work)


def _of_folder(
    settings: BaseSettings, description: MapDescription, opts: Namespace, shown: ImportDisplay
) -> None:
    if opts.day is None:
        raise ConfigurationError(
            "which day's state does the folder have? add --day, such as --day 2024-05-01; nothing was changed"
        )
    now = datetime.now(UTC)
    day = day_of(description, opts.day, now)
    with shown, open_history(settings) as history:
        into = ImportedMap(description, history, open_store(settings), SOURCE, now)
        asyncio.run(import_folder(into, Path(opts.source), day, shown))


def _of_kedamadiff(
    settings: BaseSettings, description: MapDescription, opts: Namespace, shown: ImportDisplay
) -> None:
    archive = KedamaDiffArchive.open(Path(opts.source), opts.savename)
    if description.timezone != ZONE:
        say(
            f"the archive's days are those of {ZONE} unless KedamaDiff was configured otherwise, and the"
            f' map\'s are of {description.timezone}: write timezone = "{ZONE}" into its entry'
        )

    now = datetime.now(UTC)
    with shown, open_history(settings) as history:
        store = open_store(settings)
        outside = import_kedamadiff(archive, description, history, store, now, shown, opts.layer)
    if outside:
        records = counted(outside, "record")
        say(f"map '{description.name}' does not keep the tiles of {records}, which it leaves out")


_FORMS: Final = {"git": _of_git, "folder": _of_folder, "kedamadiff": _of_kedamadiff}


def _in_words(name: str, shown: ImportDisplay) -> Iterator[str]:
    for what, number in (("day", len(shown.unread)), ("image", len(shown.missing))):
        if number:
            more = "; --json names them all" if number > _MOST_TOLD else ""
            yield f"missing in the source: {counted(number, what)}{more}"
    if not shown.days:
        is_all = not (shown.unread or shown.missing)
        yield f"map '{name}'{' has all of it already' if is_all else ''}: nothing was imported"
        return
    when = f"{counted(len(shown.days), 'day')} imported, {min(shown.days)} to {max(shown.days)}"
    yield f"{name}: {when}; {outcomes_in_words(shown.counts)}"
    if taken := sum(one.left_out for one in shown.days.values()):
        tiles = counted(taken, "tile")
        yield f"a harvest had asked the site itself on these days, and what it found stays: {tiles}"
