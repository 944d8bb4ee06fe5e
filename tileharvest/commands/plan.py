"""`scrapy plan NAME`: what a harvest will cost, before its first request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final

from scrapy.commands import ScrapyCommand

from tileharvest.commands.map_command import MapCommand
from tileharvest.commands.settings import quieten
from tileharvest.commands.terminal import write_json, write_line, write_table
from tileharvest.errors import ConfigurationError, SiteError, TileHarvestError
from tileharvest.harvest.next_walk import NextWalk, next_walk
from tileharvest.harvest.plan import (
    Expense,
    Plan,
    duration_in_words,
    plan_by_last,
    plan_by_sample,
    runs_needed,
    two_digits,
)
from tileharvest.harvest.walk import LEAST_AUDITED
from tileharvest.history.settings import open_history_if_any
from tileharvest.history.summaries import Precedent, precedent
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.settings import described_map
from tileharvest.politeness.settings import courtesy_for
from tileharvest.spiders.sampling import USUAL_REQUESTS, SamplingSpider

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.maps.budgets import Budget
    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.rates import Gap
    from tileharvest.politeness.courtesy import Courtesy
    from tileharvest.spiders.sampling import Sampled

_SEEDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Answer:
    """A plan with what is said about it."""

    map_name: str
    plan: Plan
    origin: dict[str, Any]
    """What it is made from, for programs."""
    title: str
    expected: str
    """What the expected expense is called."""
    notes: tuple[str, ...]
    is_exact: bool
    walk: NextWalk | None = None
    """None where that is not known: for a map without a history, and one whose site was asked."""
    pruned: str | None = None
    """What the expense of a pruned walk is called; None where there will be none."""

    @property
    def next(self) -> Expense:
        """Of the walk that will be made, as far as that is known."""
        is_pruned = self.walk is not None and self.walk.is_pruned
        return self.plan.pruned if is_pruned and self.plan.pruned is not None else self.plan.expected


class Command(MapCommand, ScrapyCommand):
    requires_crawler_process = True

    def short_desc(self) -> str:
        return "Say what a harvest will cost: tiles, requests, bytes and time, before its first request"

    def long_desc(self) -> str:
        return (
            f"{self.short_desc()}. From the last harvest, without asking the site; for a map that has none,"
            " from a sample of its tiles. Tells how the next harvest will walk,"
            " and why. Exit status: 0 done, 1 error, 2 wrong usage, 5 site unreachable."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--sample", action="store_true", help="ask the site, even if the map was harvested before"
        )
        parser.add_argument(
            "--requests", type=int, help=f"ask at most so many for a sample (default: {USUAL_REQUESTS})"
        )
        parser.add_argument("--seed", type=int, help="choose the sample as the run did that told this number")

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        quieten(self.settings, "ERROR")

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        if opts.requests is not None and opts.requests < 1:
            raise ConfigurationError(
                f"--requests {opts.requests} asks nothing: write --requests {USUAL_REQUESTS}"
            )
        description = described_map(settings, args[0])
        courtesy = courtesy_for(settings, description)
        known = None if opts.sample else _last_harvest(settings, description)
        if known is not None:
            last, walk = known
            plan = plan_by_last(last, courtesy, audit=description.audit, least_audited=LEAST_AUDITED)
            answer = _by_last(description, plan, last, walk)
        else:
            seed = SystemRandom().randrange(_SEEDS) if opts.seed is None else opts.seed
            sampled = self._sampled(description, courtesy, opts.requests, seed)
            plan = plan_by_sample(
                sampled.estimate,
                courtesy,
                looking=sampled.looking,
                crawl_gap=sampled.crawl_gap,
                latency=sampled.latency,
            )
            answer = _by_sample(description.name, plan, sampled, seed)
        budgets = {"run": courtesy.budget, "day": courtesy.daily_budget}
        if opts.json:
            write_json(_plain(answer, budgets))
        else:
            _write(answer, budgets)

    def _sampled(
        self, description: MapDescription, courtesy: Courtesy, requests: int | None, seed: int
    ) -> Sampled:
        gap = _present_gap(description, courtesy)
        assert self.crawler_process is not None
        crawler = self.crawler_process.create_crawler(SamplingSpider)
        # No secret depends on it, and the same seed is to choose the same tiles.
        random = Random(seed).random  # noqa: S311
        self.crawler_process.crawl(
            crawler, description=description, courtesy=courtesy, gap=gap, requests=requests, random=random
        )
        self.crawler_process.start()
        spider = crawler.spider
        if isinstance(spider, SamplingSpider) and spider.sampled is not None:
            return spider.sampled
        ending = spider.ending if isinstance(spider, SamplingSpider) else None
        raise ending or SiteError(
            f"{description.url} was not asked to the end: nothing was planned; try again"
        )


def _present_gap(description: MapDescription, courtesy: Courtesy) -> Gap:
    now = datetime.now(UTC).astimezone(description.zone_info)
    gap = courtesy.gap_at(now)
    if gap is None:
        raise TileHarvestError(
            f"map '{description.name}' has quiet hours until {courtesy.quiet_until(now):%H:%M %Z}: its site"
            f" was not asked, and nothing planned; try again then"
        )
    return gap.at_least(courtesy.host_gap)


def _last_harvest(settings: BaseSettings, description: MapDescription) -> tuple[Precedent, NextWalk] | None:
    history = open_history_if_any(settings)
    if history is None:
        return None
    with history:
        last = precedent(history, description.name)
        if last is None:
            return None
        today = datetime.now(UTC).astimezone(description.zone_info).date()
        return last, next_walk(history, description, last.summary.depth, today)


def _by_last(description: MapDescription, plan: Plan, last: Precedent, walk: NextWalk) -> _Answer:
    name, day = description.name, last.summary.day
    may_prune = walk.is_pruned or (last.pruned is not None and description.walk != "full")
    pruned = "pruned walk" if last.pruned is not None else "pruned, at least"
    is_as_last = last.full is last.summary and not may_prune
    return _Answer(
        name,
        plan,
        {
            "from": "harvest",
            "day": day.isoformat(),
            "walk": "pruned" if walk.is_pruned else "full",
            "walk_reason": walk.reason,
            "full": _plain_expense(plan.expected),
            "pruned": _plain_expense(plan.pruned) if may_prune and plan.pruned is not None else None,
        },
        f"{name}, by its harvest of {day}; its site was not asked",
        "as last time" if is_as_last else "full walk",
        (
            f"the next walk is {walk.in_short}: {walk.reason}",
            "at most: if every tile has changed, and none is new; --sample asks the site",
        ),
        is_exact=True,
        walk=walk,
        pruned=pruned if may_prune else None,
    )


def _by_sample(map_name: str, plan: Plan, sampled: Sampled, seed: int) -> _Answer:
    found = sampled.estimate
    vain = f"{_number(found.missing.expected, found.is_exact)} find nothing"
    if found.passed.expected:
        vain += f", {_number(found.passed.expected, found.is_exact)} find tiles that are not kept"
    how = (
        "all of the map's tiles were asked about"
        if found.is_exact
        else f"a sample; more --requests make it more exact, --seed {seed} repeats it"
    )
    return _Answer(
        map_name,
        plan,
        {
            "from": "sample",
            "seed": seed,
            "asked": sampled.requests,
            "exact": found.is_exact,
            "passed": round(found.passed.expected),
            "missing": round(found.missing.expected),
        },
        f"{map_name}, if every tile is fetched: by {sampled.requests} requests made now",
        "exactly" if found.is_exact else "about",
        (f"of the requests {vain}", how),
        found.is_exact,
    )


def _expenses(answer: _Answer) -> dict[str, Expense]:
    """Those that are worth a column."""
    plan = answer.plan
    if plan.least is None:
        pruned = {answer.pruned: plan.pruned} if answer.pruned and plan.pruned else {}
        return {**pruned, answer.expected: plan.expected, "at most": plan.most}
    if answer.is_exact:
        return {answer.expected: plan.expected}
    return {answer.expected: plan.expected, "at least": plan.least, "at most": plan.most}


def _number(value: float, is_exact: bool) -> str:
    return f"{round(value) if is_exact else two_digits(value):,}"


def _write(answer: _Answer, budgets: dict[str, Budget]) -> None:
    def received(expense: Expense) -> str:
        if expense.received_bytes is None:
            return "unknown"
        count = expense.received_bytes
        return bytes_in_words(round(count) if answer.is_exact else two_digits(count))

    write_line(f"{answer.title}\n")
    expenses = _expenses(answer)
    rows = [
        ["tiles", *(_number(expense.tiles, answer.is_exact) for expense in expenses.values())],
        ["requests", *(_number(expense.requests, answer.is_exact) for expense in expenses.values())],
        ["received", *(received(expense) for expense in expenses.values())],
        ["time", *(duration_in_words(expense.seconds) for expense in expenses.values())],
    ]
    write_table(["", *(f">{name}" for name in expenses)], rows)
    for note in answer.notes:
        write_line(note)
    for unit, budget in budgets.items():
        runs, most = runs_needed(answer.next, budget), runs_needed(answer.plan.most, budget)
        if most > 1:
            several = f"{runs}" if runs == most else f"{runs} to {most}"
            write_line(f"with the budget of a {unit} it will be done in {several} {unit}s")


def _plain(answer: _Answer, budgets: dict[str, Budget]) -> dict[str, Any]:
    plan = answer.plan
    return {
        "map": answer.map_name,
        **answer.origin,
        "expected": _plain_expense(answer.next),
        "least": None if plan.least is None else _plain_expense(plan.least),
        "most": _plain_expense(plan.most),
        **{
            f"{unit}s": runs_needed(answer.next, budget) if budget else None
            for unit, budget in budgets.items()
        },
    }


def _plain_expense(expense: Expense) -> dict[str, Any]:
    return {
        "tiles": round(expense.tiles),
        "requests": round(expense.requests),
        "received_bytes": None if expense.received_bytes is None else round(expense.received_bytes),
        "seconds": round(expense.seconds, 1),
    }
