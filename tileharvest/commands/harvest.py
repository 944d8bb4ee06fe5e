"""`tileharvest harvest NAME... | --all`: harvest maps side by side, and say how it went."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from scrapy.commands import BaseRunSpiderCommand

from tileharvest.commands.progress import HarvestProgress
from tileharvest.commands.project_command import ProjectCommand, switch, value
from tileharvest.commands.report import HarvestEnd, HarvestEnds
from tileharvest.commands.runner import Runner
from tileharvest.commands.settings import maps_at_once, progress_interval
from tileharvest.commands.terminal import console, say
from tileharvest.errors import ConfigurationError, QueueError, program
from tileharvest.maps.settings import all_maps

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings


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
        "Exit status: 0 done, 1 error or stopped, 2 wrong usage or a map that another process harvests,"
        " 3 finished with failed tiles, 4 ended by a budget, 5 site unreachable or moved. Several maps are"
        " harvested side by side; their status is the worst, and a paused one is passed over, as it is with"
        " --all and --no-wait. A paused map that is named alone is waited for."
    )
    examples = ("my-server", "--all --at-once 4")
    requires_crawler_process = True
    # Warnings appear above the lines of progress.
    log_level = "WARNING"
    options = {
        "--all": switch("harvest every map that is enabled"),
        "--at-once": value("how many maps are harvested side by side (MAPS_AT_ONCE, 16)", metavar="N"),
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
        self._at_once = maps_at_once(self.settings, opts.at_once)
        progress_interval(self.settings)
        self._names = _checked_maps(self.settings, opts.name, opts.spargs)

    def answer(self, opts: Namespace) -> None:
        from tileharvest.spiders.tiles import TileSpider

        assert self.crawler_process is not None
        settings, names = self.settings, self._names
        report = HarvestEnds(names, as_json=opts.json, is_verbose=opts.verbose)
        progress = HarvestProgress(
            console(sys.stderr), progress_interval(settings), maps=len(names), is_shown=not opts.json
        )

        def ended(name: str, spider: Spider | None) -> None:
            if isinstance(spider, TileSpider) and spider.crawl.harvest is not None:
                report.note(HarvestEnd.of(spider, settings, opts.spargs))
            if report.is_complete:
                progress.hide()

        def pass_over(name: str) -> None:
            progress.remove(name)
            report.pass_over()

        runner = Runner(
            self.crawler_process,
            progress,
            ended,
            at_once=self._at_once,
            arguments=opts.spargs,
            is_alone=len(names) == 1,
        )
        waits = len(names) == 1 and not (opts.all or opts.no_wait)
        runner.run(_in_turn(settings, names, None if waits else pass_over))
        progress.hide()
        self.exitcode = report.finish(runner.under_way)


def _checked_maps(settings: BaseSettings, named: list[str], arguments: dict[str, str]) -> list[str]:
    """Returns the names of the maps to harvest. Raises ConfigurationError if anything is wrong with a map."""
    from tileharvest.harvest.settings import harvest_for
    from tileharvest.politeness.settings import rules_for

    enabled = [] if named else [name for name, one in all_maps(settings).items() if one.enabled]
    names = list(dict.fromkeys(named or enabled))
    if not names:
        raise ConfigurationError(f"no map is enabled: `{program()} maps` lists them")
    for name in names:
        rules_for(settings, harvest_for(settings, {**arguments, "map": name}).description)
    return names


async def _in_turn(
    settings: BaseSettings, names: list[str], pass_over: Callable[[str], None] | None
) -> AsyncIterator[str]:
    """Yields the maps to harvest. Paused ones are left out and handed to `pass_over`, unless it is None."""
    from tileharvest.queue.settings import controls_for

    for name in names:
        since = None
        # The harvest will meet the same error and report it.
        with suppress(QueueError):
            since = (await controls_for(settings, name)).paused
        if since is None or pass_over is None:
            yield name
        else:
            say(
                f"map '{name}' is paused since {since} and was passed over;"
                f" {program()} resume {name} lets it go on"
            )
            pass_over(name)
