"""`tileharvest harvest NAME... | --all`: harvest maps side by side, and say how it went."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from scrapy import Spider
from scrapy.commands import BaseRunSpiderCommand
from scrapy.settings import BaseSettings

from tileharvest.commands.progress import HarvestProgress
from tileharvest.commands.project_command import ProjectCommand, switch, value
from tileharvest.commands.report import HarvestEnd, say_what_is_left
from tileharvest.commands.runner import Runner
from tileharvest.commands.settings import AT_ONCE
from tileharvest.commands.terminal import console, say, write_json, write_line
from tileharvest.errors import ConfigurationError, ExitStatus, QueueError, program
from tileharvest.harvest.settings import harvest_for
from tileharvest.maps.settings import all_maps, setting
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.settings import controls_for
from tileharvest.spiders.tiles import TileSpider
from tileharvest.tiles.outcomes import counts_as_plain

_SWITCHES: Final = {
    "dry": "ask and report, but keep nothing",
    "fresh": "begin the segment again, as if nothing had been asked in it",
    "stay": "wait for pushed requests until you stop it",
}
"""The spiders' arguments that are switches, and what they mean."""


class Command(ProjectCommand, BaseRunSpiderCommand):
    arguments = "[NAME...]"
    form = "NAME... | --all"
    summary = "Harvest maps, and show progress and outcomes"
    details = (
        "Several maps are harvested side by side; their exit status is the worst, and a paused one is passed"
        " over, as it is with --all and --no-wait. A paused map that is named alone is waited for."
    )
    examples = ("my-server", "--all --at-once 4")
    requires_crawler_process = True
    # Warnings appear above the lines of progress.
    log_level = "WARNING"
    options = {
        "--all": switch("harvest every map that is enabled"),
        "--at-once": AT_ONCE,
        "--no-wait": switch("leave a paused map alone, and do not wait for it (for cron)"),
        "--verbose": switch("write the outcomes with their codes"),
        "--day": value("harvest for this day, such as 2026-11-20"),
        "--segment": value(
            "day, hour, week, every:3d, or run: each start asks anew. Of several harvests in a day, the"
            " history keeps the last one"
        ),
        **{f"--{name}": switch(meaning) for name, meaning in _SWITCHES.items()},
    }

    def check(self, opts: Namespace) -> None:
        opts.spargs |= {name: getattr(opts, name) for name in ("day", "segment") if getattr(opts, name)}
        opts.spargs |= {name: "1" for name in _SWITCHES if getattr(opts, name)}
        if bool(opts.name) == opts.all:
            raise self.wrong_usage()
        if "map" in opts.spargs:
            raise ConfigurationError(
                f"write {program()} harvest {opts.spargs['map']}: -a map= is for {program()} crawl"
            )
        named = opts.name or [name for name, one in all_maps(self.settings).items() if one.enabled]
        self._names = list(dict.fromkeys(named))
        if not self._names:
            raise ConfigurationError(f"no map is enabled: `{program()} maps` lists them")
        for name in self._names:
            described = harvest_for(self.settings, {**opts.spargs, "map": name}).description
            rules_for(self.settings, described)

    def answer(self, opts: Namespace) -> None:
        assert self.crawler_process is not None
        names, is_alone = self._names, len(self._names) == 1
        interval = float(setting(self.settings, "PROGRESS_INTERVAL"))
        progress = HarvestProgress(console(sys.stderr), interval, maps=len(names), is_shown=not opts.json)
        ends: dict[str, HarvestEnd] = {}
        passed_over: list[str] = []

        async def ended(name: str, spider: Spider | None) -> None:
            if not isinstance(spider, TileSpider) or spider.crawl.harvest is None:
                return
            ends[name] = HarvestEnd.of(spider)
            if len(ends) + len(passed_over) == len(names):
                progress.hide()
            if not opts.json:
                _write(ends[name], is_alone=is_alone, is_verbose=opts.verbose)

        async def in_turn() -> AsyncIterator[str]:
            """Yields the maps to harvest. Paused ones are passed over, but for one that is waited for."""
            for name in names:
                waits = is_alone and not (opts.all or opts.no_wait)
                if waits or (since := await _paused(self.settings, name)) is None:
                    yield name
                    continue
                say(
                    f"map '{name}' is paused since {since} and was passed over;"
                    f" {program()} resume {name} lets it go on"
                )
                progress.remove(name)
                passed_over.append(name)

        at_once, arguments = opts.at_once, opts.spargs
        runner = Runner(
            self.crawler_process, progress, ended, at_once=at_once, arguments=arguments, is_alone=is_alone
        )
        runner.run(in_turn())
        progress.hide()
        if runner.fault is not None:
            raise runner.fault
        in_order = [ends[name] for name in names if name in ends]
        if opts.json:
            write_json([end.as_plain() for end in in_order])
        status = say_what_is_left(in_order, runner.under_way)
        self.exitcode = status if len(ends) + len(passed_over) == len(names) else ExitStatus.ERROR


async def _paused(settings: BaseSettings, name: str) -> str | None:
    """Returns since when a map is paused, or None if it is not."""
    # The harvest will meet the same error and report it.
    with suppress(QueueError):
        return (await controls_for(settings, name)).paused
    return None


def _write(end: HarvestEnd, *, is_alone: bool, is_verbose: bool) -> None:
    """Writes how a harvest has ended. The log has reported an error of one that is alone."""
    if is_alone and end.exit_status is ExitStatus.DONE and end.ending is not None:
        write_line(end.ending)
    elif end.counts or not is_alone:
        write_line(end.in_words)
        if is_verbose:
            codes = (f"{word} {number:,}" for word, number in counts_as_plain(end.counts).items())
            write_line(f"  in codes: {', '.join(codes)}")
        # Nobody looks at a pipe.
        if is_alone and end.is_finished and sys.stdout.isatty():
            write_line(f"see it: {program()} serve")
    sys.stdout.flush()
