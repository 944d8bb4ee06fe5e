"""`scrapy plan NAME`: what a harvest will cost, before its first request."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from math import isnan
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from scrapy.commands import ScrapyCommand

from tileharvest.commands.project_command import ProjectCommand, ask_site
from tileharvest.commands.settings import ask_history
from tileharvest.commands.terminal import write_json, write_line, write_table
from tileharvest.errors import ConfigurationError, SiteError, TileHarvestError, counted, duration_in_words
from tileharvest.harvest.plan import USUAL_REQUESTS, plan_by_last
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.settings import described_map

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

    from tileharvest.harvest.plan import Expense, HarvestPlan
    from tileharvest.history.database import History
    from tileharvest.history.summaries import Precedent
    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.rules import Rules
    from tileharvest.spiders.site_sample import SiteSampleSpider
    from tileharvest.walk.decision import Decisions

_SEEDS: Final = 1_000_000


class _PlanReport(NamedTuple):
    """A plan with the words and numbers in which it is told."""

    title: str
    columns: Mapping[str, Expense | None]
    """The columns of the table by their heads. A column that is None is left out."""
    notes: tuple[str, ...]
    """The lines below the table."""
    origin: dict[str, Any]
    """The origin of the plan, as programs are told it."""
    plan: HarvestPlan
    """The plan of the walk that will be made, as far as that is known."""


class Command(ProjectCommand, ScrapyCommand):
    summary = "Say what a harvest will cost, before its first request"
    details = (
        "From the last harvest, without asking the site; for a map that has none,"
        " from a sample of its tiles. Tells how the next harvest will walk,"
        " and why. Exit status: 0 done, 1 error, 2 wrong usage, 5 site unreachable."
    )

    requires_crawler_process = True
    log_level = "ERROR"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--sample", action="store_true", help="ask the site, even if the map was harvested before"
        )
        parser.add_argument(
            "--requests", type=int, help=f"ask at most so many for a sample (default: {USUAL_REQUESTS})"
        )
        parser.add_argument("--seed", type=int, help="choose the sample as the run did that told this number")

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        from tileharvest.politeness.settings import rules_for

        if opts.requests is not None and opts.requests < 1:
            raise ConfigurationError(
                f"--requests {opts.requests} asks nothing: write --requests {USUAL_REQUESTS}"
            )
        description = described_map(settings, args[0])
        rules = rules_for(settings, description)
        last = ask_history(settings, lambda history: _last_harvest(history, description))
        if last is not None and not opts.sample:
            report = _by_last(description, rules, *last)
        else:
            if last is not None and description.check == "head":
                description = msgspec.structs.replace(description, first="head")
            seed = SystemRandom().randrange(_SEEDS) if opts.seed is None else opts.seed
            report = _by_sample(self._asked(description, rules, opts.requests, seed), seed)
        budgets, plan = {"run": rules.budget, "day": rules.daily_budget}, report.plan
        if opts.json:
            runs = {f"{unit}s": plan.expected.runs(one) if one else None for unit, one in budgets.items()}
            of_range = {"expected": plan.expected, "least": plan.least, "most": plan.most}
            plain = {name: _plain(expense) for name, expense in of_range.items()}
            write_json({"map": description.name, **report.origin, **plain, **runs})
            return
        _write(report)
        for unit, budget in budgets.items():
            fewest, most = plan.expected.runs(budget), plan.most.runs(budget)
            if most > 1:
                several = f"{fewest}" if fewest == most else f"{fewest} to {most}"
                write_line(f"with the budget of a {unit} it will be done in {several} {unit}s")

    def _asked(
        self, description: MapDescription, rules: Rules, requests: int | None, seed: int
    ) -> SiteSampleSpider:
        """Asks for the sample, and returns the spider. Raises TileHarvestError."""
        from tileharvest.spiders.site_sample import SiteSampleSpider

        now = datetime.now(description.zone_info)
        gap = rules.gap_at(now)
        if gap is None:
            raise TileHarvestError(
                f"map '{description.name}' has quiet hours until {rules.quiet_until(now):%H:%M %Z}:"
                f" its site was not asked, and nothing planned; try again then"
            )
        # The same seed must choose the same tiles. No secret depends on it.
        random = Random(seed)  # noqa: S311
        present = replace(rules, gap=gap, quiet=())
        asked = {"description": description, "rules": present, "requests": requests, "random": random}
        spider = ask_site(self.crawler_process, SiteSampleSpider, **asked)
        if spider.plan is None:
            raise SiteError(f"{description.url} was not asked to the end: nothing was planned; try again")
        return spider


def _last_harvest(history: History, description: MapDescription) -> tuple[Precedent, Decisions] | None:
    """Returns the last finished harvest and how the next one will walk, or None if none was ever finished."""
    from tileharvest.harvest.walks import next_walks
    from tileharvest.history.summaries import precedent
    from tileharvest.renderers.registry import doubt_of

    last = precedent(history, description.name)
    if last is None:
        return None
    today = datetime.now(description.zone_info).date()
    return last, next_walks(history, description, last.summary.depth, today, doubt_of(last.summary.renderer))


def _by_last(description: MapDescription, rules: Rules, last: Precedent, walk: Decisions) -> _PlanReport:
    at_once = (description.first, description.check) == ("get", "head")
    plan = plan_by_last(last, rules, audit=description.audit, at_once=at_once)
    day = last.summary.day
    may_prune = walk.is_pruned or (last.pruned is not None and description.walk != "full")
    pruned = plan.pruned if may_prune else None
    is_as_last = last.full == last.summary and pruned is None
    return _PlanReport(
        f"{description.name}, by its harvest of {day}; its site was not asked",
        {
            "pruned walk" if last.pruned is not None else "pruned, at least": pruned,
            "as last time" if is_as_last else "full walk": plan.expected,
            "at most": plan.most,
        },
        (
            _next_in_words(walk),
            "at most: if every tile has changed, and none is new; --sample asks the site",
        ),
        {
            "from": "harvest",
            "day": day.isoformat(),
            "walk": "pruned" if walk.is_pruned else "full",
            "walk_reason": walk.reason,
            "full": _plain(plan.expected),
            "pruned": _plain(pruned),
        },
        plan if pruned is None or not walk.is_pruned else plan._replace(expected=pruned),
    )


def _next_in_words(walk: Decisions) -> str:
    if all(one.change_index is None for one in walk.layers.values()):
        return f"the next walk is {walk.in_short}: {walk.reason}"
    otherwise = "pruned" if walk.is_pruned else "full"
    return (
        "the next walk asks for what the site says has changed; if all may have changed, it is"
        f" {otherwise}: {walk.reason}"
    )


def _by_sample(spider: SiteSampleSpider, seed: int) -> _PlanReport:
    plan = spider.plan
    assert plan is not None
    passed, missing = plan.expected.passed, plan.expected.missing
    vain = f"{plan.told(missing):,} find nothing"
    if passed:
        vain += f", {plan.told(passed):,} find tiles that are not kept"
    how = f"a sample; more --requests make it more exact, --seed {seed} repeats it"
    columns = {"about": plan.expected, "at least": plan.least, "at most": plan.most}
    notes = [f"of the requests {vain}"]
    if spider.failures:
        below = counted(len(spider.failures), "such tile")
        notes.append(f"{spider.failures[0]}: what lies below {below} is not counted")
    if plan.is_exact:
        how, columns = "all of the map's tiles were asked about", {"exactly": plan.expected}
    return _PlanReport(
        f"{spider.description.name}, if every tile is fetched: by {counted(spider.made, 'request')} made now",
        columns,
        (*notes, how),
        {
            "from": "sample",
            "seed": seed,
            "asked": spider.made,
            "exact": plan.is_exact,
            "failed": len(spider.failures),
            "passed": round(passed),
            "missing": round(missing),
        },
        plan,
    )


def _write(report: _PlanReport) -> None:
    write_line(report.title)
    write_line("")
    columns = {head: expense for head, expense in report.columns.items() if expense is not None}
    expenses, told = columns.values(), report.plan.told
    sizes = [one.received_bytes for one in expenses]
    rows = [
        ["tiles", *(f"{told(one.tiles):,}" for one in expenses)],
        ["requests", *(f"{told(one.requests):,}" for one in expenses)],
        ["received", *("unknown" if isnan(size) else bytes_in_words(told(size)) for size in sizes)],
        ["time", *(duration_in_words(one.seconds) for one in expenses)],
    ]
    write_table(["", *(f">{head}" for head in columns)], rows)
    for note in report.notes:
        write_line(note)


def _plain(expense: Expense | None) -> dict[str, Any] | None:
    return None if expense is None else expense.as_plain()
