"""`tileharvest plan NAME`: what a harvest will cost, before its first request."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime
from math import isnan
from typing import Any, Final

import msgspec

from tileharvest.commands.project_command import Answer, ProjectCommand, ask_site, switch
from tileharvest.commands.settings import ask_history
from tileharvest.commands.terminal import table
from tileharvest.errors import SiteError, TileHarvestError, counted, duration_in_words
from tileharvest.harvest.plan import HarvestPlan, plan_by_last
from tileharvest.harvest.walks import next_walks
from tileharvest.history.database import History
from tileharvest.history.summaries import Precedent, precedent
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.description import MapDescription
from tileharvest.maps.settings import described_map
from tileharvest.politeness.rules import Rules
from tileharvest.politeness.settings import rules_for
from tileharvest.renderers.registry import doubt_of
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


class Command(ProjectCommand):
    summary = "Say what a harvest will cost, before its first request"
    details = (
        "By the last harvest, without asking the site; for a map that has none, by a sample of 200 of its"
        " tiles."
    )
    requires_crawler_process = True
    log_level = "ERROR"
    examples = ("my-server", "my-server --sample")
    options = {
        "--sample": switch("ask the site, even if the map was harvested before"),
        "--why": switch("say why the next harvest walks as it will"),
    }

    def check(self, opts: Namespace) -> None:
        self._description = described_map(self.settings, opts.name)
        self._rules = rules_for(self.settings, self._description)

    def answer(self, opts: Namespace) -> Answer:
        description, rules = self._description, self._rules
        last = ask_history(self.settings, lambda history: _last_harvest(history, description))
        if last is not None and not opts.sample:
            plan, origin, lines = _by_last(description, rules, *last, why=opts.why)
        else:
            if last is not None and description.check == "head":
                description = msgspec.structs.replace(description, first="head")
            plan, origin, lines = self._by_sample(description, rules)
        least = None if plan.least is None else plan.least.as_plain()
        plain = {"expected": plan.expected.as_plain(), "least": least, "most": plan.most.as_plain()}
        title, *notes = lines
        if plan.expected.seconds > _LONG:
            notes.append("that takes days; a region takes less: write zones into maps.toml")
        result = {"map": description.name, **origin, **plain}
        return result, [title, "", *_costs(plan), *notes]

    def _by_sample(
        self, description: MapDescription, rules: Rules
    ) -> tuple[HarvestPlan, dict[str, Any], list[str]]:
        """Asks for a sample. Returns the plan, its origin for programs, and a title and notes for people.
        Raises TileHarvestError."""
        if (until := rules.quiet_until(datetime.now(description.zone_info))) is not None:
            raise TileHarvestError(
                f"map '{description.name}' has quiet hours until {until:%H:%M %Z}:"
                f" its site was not asked, and nothing planned; try again then"
            )
        spider = ask_site(self.crawler_process, description=description, rules=rules, samples=True)
        plan = spider.plan
        if plan is None:
            raise SiteError(f"{description.url} was not asked to the end: nothing was planned; try again")
        made = counted(spider.made, "request")
        lines = [
            f"{description.name}, if every tile is fetched: by {made} made now",
            "all of the map's tiles were asked about" if plan.is_exact else "by a sample of its tiles",
        ]
        if spider.failures:
            below = counted(len(spider.failures), "such tile")
            lines.append(f"{spider.failures[0]}: what lies below {below} is not counted")
        origin = {"asked": spider.made, "exact": plan.is_exact, "failed": len(spider.failures)}
        return plan, {"from": "sample", **origin}, lines


def _last_harvest(history: History, description: MapDescription) -> tuple[Precedent, Decisions] | None:
    """Returns the last finished harvest and how the next one will walk, or None if none was ever finished."""
    last = precedent(history, description.name)
    if last is None:
        return None
    today = datetime.now(description.zone_info).date()
    doubt = doubt_of(last.summary.renderer)
    return last, next_walks(history, description, last.summary.depth, today, doubt)


def _by_last(
    description: MapDescription, rules: Rules, last: Precedent, walk: Decisions, *, why: bool
) -> tuple[HarvestPlan, dict[str, Any], list[str]]:
    """Returns the plan, its origin for programs, and a title and notes for people."""
    share = description.full_every if walk.kind == "share" else 1
    day = last.summary.day
    lines = [
        f"{description.name}, by its harvest of {day}; its site was not asked",
        f"next walk: {_WALKS.get(walk.in_short, walk.in_short)}",
    ]
    if why:
        lines.append(f"why: {walk.reason}")
    if walk.is_pruned and last.pruned is None:
        lines.append("no walk was pruned yet: the expected numbers are those of a full one, and too high")
    lines.append("at most: if every tile has changed, and none is new; --sample asks the site")
    origin = {"from": "harvest", "day": day.isoformat(), "walk": walk.kind, "walk_reason": walk.reason}
    return plan_by_last(last, rules, is_pruned=walk.is_pruned, share=share), origin, lines


def _costs(plan: HarvestPlan) -> list[str]:
    columns = {"exactly" if plan.is_exact and plan.least else "about": plan.expected}
    if not plan.is_exact and plan.least is not None:
        columns["at least"] = plan.least
    if plan.least is None or not plan.is_exact:
        columns["at most"] = plan.most
    costs, shown = columns.values(), plan.shown
    sizes = [one.received_bytes for one in costs]
    rows = [
        ["tiles", *(f"{shown(one.tiles):,}" for one in costs)],
        ["requests", *(f"{shown(one.requests):,}" for one in costs)],
        ["received", *("unknown" if isnan(size) else bytes_in_words(shown(size)) for size in sizes)],
        ["time", *(duration_in_words(one.seconds) for one in costs)],
    ]
    return table(["", *(f">{head}" for head in columns)], rows)
