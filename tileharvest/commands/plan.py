"""`tileharvest plan NAME`: what a harvest will cost, before its first request."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from datetime import datetime
from math import isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from scrapy.commands import ScrapyCommand

from tileharvest.commands.project_command import ProjectCommand, ask_site, switch
from tileharvest.commands.settings import ask_history
from tileharvest.commands.terminal import write_json, write_line, write_table
from tileharvest.errors import SiteError, TileHarvestError, counted, duration_in_words
from tileharvest.harvest.plan import plan_by_last
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.settings import described_map

if TYPE_CHECKING:
    from tileharvest.harvest.plan import HarvestPlan
    from tileharvest.history.database import History
    from tileharvest.history.summaries import Precedent
    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.rules import Rules
    from tileharvest.walk.decision import Decisions


_WALKS: Final = {
    "full": "full, every tile is asked",
    "pruned": "pruned, unchanged parts are skipped",
    "index": "index, what the site lists as changed",
    "share": "share, what exists and a part of the empty places",
}
"""The kinds of walks in a few words."""
_LONG: Final = 86_400
"""The seconds of a harvest from which on `plan` names regions."""


class _PlanReport(NamedTuple):
    """A plan, with the words for people and the facts for programs."""

    plan: HarvestPlan
    title: str
    notes: list[str]
    origin: dict[str, Any]


class Command(ProjectCommand, ScrapyCommand):
    summary = "Say what a harvest will cost, before its first request"
    details = (
        "By the last harvest, without asking the site; for a map that has none, by a sample of 200 of its"
        " tiles. Exit status: 0 done, 1 error, 2 wrong usage, 5 site unreachable."
    )

    requires_crawler_process = True
    log_level = "ERROR"

    examples = ("my-server", "my-server --sample")
    options = {
        "--sample": switch("ask the site, even if the map was harvested before"),
        "--why": switch("say why the next harvest walks as it will"),
    }

    def check(self, opts: Namespace) -> None:
        from tileharvest.politeness.settings import rules_for

        self._description = described_map(self.settings, opts.name)
        self._rules = rules_for(self.settings, self._description)

    def answer(self, opts: Namespace) -> None:
        description, rules = self._description, self._rules
        last = ask_history(self.settings, lambda history: _last_harvest(history, description))
        if last is not None and not opts.sample:
            report = _by_last(description, rules, *last, why=opts.why)
        else:
            if last is not None and description.check == "head":
                description = msgspec.structs.replace(description, first="head")
            report = self._by_sample(description, rules)
        plan, budgets = report.plan, {"run": rules.budget, "day": rules.daily_budget}
        if opts.json:
            of_range = {"expected": plan.expected, "least": plan.least, "most": plan.most}
            plain = {name: expense and expense.as_plain() for name, expense in of_range.items()}
            runs = {f"{unit}s": plan.expected.runs(one) if one else None for unit, one in budgets.items()}
            write_json({"map": description.name, **report.origin, **plain, **runs})
            return
        _write(report)
        if plan.expected.seconds > _LONG and (region := _region_of(description)):
            write_line(f"that takes days; a region takes less: write into maps.toml, for example, {region}")
        for unit, budget in budgets.items():
            fewest, most = plan.expected.runs(budget), plan.most.runs(budget)
            if most > 1:
                several = f"{fewest}" if fewest == most else f"{fewest} to {most}"
                write_line(f"with the budget of a {unit} it will be done in {several} {unit}s")

    def _by_sample(self, description: MapDescription, rules: Rules) -> _PlanReport:
        """Asks for a sample. Raises TileHarvestError."""
        from tileharvest.spiders.site_sample import SiteSampleSpider

        now = datetime.now(description.zone_info)
        gap = rules.gap_at(now)
        if gap is None:
            raise TileHarvestError(
                f"map '{description.name}' has quiet hours until {rules.quiet_until(now):%H:%M %Z}:"
                f" its site was not asked, and nothing planned; try again then"
            )
        present = replace(rules, gap=gap, quiet=())
        spider = ask_site(self.crawler_process, SiteSampleSpider, description=description, rules=present)
        plan = spider.plan
        if plan is None:
            raise SiteError(f"{description.url} was not asked to the end: nothing was planned; try again")
        notes = ["all of the map's tiles were asked about" if plan.is_exact else "by a sample of its tiles"]
        if spider.failures:
            below = counted(len(spider.failures), "such tile")
            notes.append(f"{spider.failures[0]}: what lies below {below} is not counted")
        made = counted(spider.made, "request")
        title = f"{description.name}, if every tile is fetched: by {made} made now"
        origin = {"asked": spider.made, "exact": plan.is_exact, "failed": len(spider.failures)}
        return _PlanReport(plan, title, notes, {"from": "sample", **origin})


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


def _by_last(
    description: MapDescription, rules: Rules, last: Precedent, walk: Decisions, *, why: bool
) -> _PlanReport:
    share = description.full_every if walk.kind == "share" else 1
    plan = plan_by_last(last, rules, is_pruned=walk.is_pruned, share=share)
    day = last.summary.day
    notes = [f"next walk: {_WALKS.get(walk.in_short, walk.in_short)}"]
    if why:
        notes.append(f"why: {walk.reason}")
    if walk.is_pruned and last.pruned is None:
        notes.append("no walk was pruned yet: the expected numbers are those of a full one, and too high")
    notes.append("at most: if every tile has changed, and none is new; --sample asks the site")
    origin = {
        "from": "harvest",
        "day": day.isoformat(),
        "walk": walk.kind,
        "walk_reason": walk.reason,
    }
    return _PlanReport(
        plan, f"{description.name}, by its harvest of {day}; its site was not asked", notes, origin
    )


def _region_of(description: MapDescription) -> str:
    """Returns an example of the key of maps.toml that keeps a region of a map of plain tiles. Returns an
    empty text for any other map."""
    from tileharvest.maps.description import EXAMPLES
    from tileharvest.maps.regions import KNOWN
    from tileharvest.renderers.xyz import is_plain

    canvas = description.canvas or KNOWN.get(description.host)
    if canvas is not None and canvas.earth:
        return 'zones = [{link = "https://...?lat=...&lng=...", size = [40, 30]}]'
    if canvas is not None and canvas.tile is not None:
        return f"zones = [{{pixels = [0, 0, {40 * canvas.tile}, {30 * canvas.tile}]}}]"
    return EXAMPLES["zones"] if is_plain(description) else ""


def _write(report: _PlanReport) -> None:
    plan = report.plan
    columns = {"exactly" if plan.is_exact and plan.least else "about": plan.expected}
    if not plan.is_exact and plan.least is not None:
        columns["at least"] = plan.least
    if plan.least is None or not plan.is_exact:
        columns["at most"] = plan.most
    costs, shown = columns.values(), plan.shown
    sizes = [one.received_bytes for one in costs]
    write_line(report.title)
    write_line("")
    rows = [
        ["tiles", *(f"{shown(one.tiles):,}" for one in costs)],
        ["requests", *(f"{shown(one.requests):,}" for one in costs)],
        ["received", *("unknown" if isnan(size) else bytes_in_words(shown(size)) for size in sizes)],
        ["time", *(duration_in_words(one.seconds) for one in costs)],
    ]
    write_table(["", *(f">{head}" for head in columns)], rows)
    for note in report.notes:
        write_line(note)
