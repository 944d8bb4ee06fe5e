"""`tileharvest maps`: the configured maps and what is known of them."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand

from tileharvest.commands.due_maps import dues_of
from tileharvest.commands.project_command import ProjectCommand, switch
from tileharvest.commands.terminal import write_error, write_line, write_rows
from tileharvest.errors import program
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.settings import all_maps
from tileharvest.queue.controls import Controls
from tileharvest.walk.decision import Decisions

if TYPE_CHECKING:
    from tileharvest.commands.terminal import Columns
    from tileharvest.harvest.due import Due
    from tileharvest.history.database import History
    from tileharvest.history.summaries import MapSummary
    from tileharvest.maps.description import MapDescription


class Command(ProjectCommand, ScrapyCommand):
    arguments = ""
    summary = "List the maps with their last harvest, size, and next harvest"
    details = "Columns on the right that a terminal has no room for are left out; --json has all of it."
    examples = ("", "--why")
    options = {"--why": switch("say why each map's next walk is as it is")}

    def answer(self, opts: Namespace) -> None:
        from tileharvest.history.settings import open_history_if_any
        from tileharvest.history.summaries import MapSummary, map_summaries
        from tileharvest.queue.settings import controls_for_all

        descriptions, now = all_maps(self.settings), datetime.now(UTC)
        summaries = {name: MapSummary(name, None, None, {}, 0, 0, 0) for name in descriptions}
        with open_history_if_any(self.settings) or nullcontext() as history:
            if history is not None:
                summaries |= {one.name: one for one in map_summaries(history)}
            walks = _next_walks(history, descriptions.values(), summaries, now)
            due = dues_of(self.settings, history, descriptions.values(), now)
        controls, faults = asyncio.run(controls_for_all(self.settings, list(descriptions)))
        for fault in faults:
            # The list is useful without the orders.
            write_error(str(fault))
        rows = [
            _row(one, summaries[name], walks[name], controls.get(name, Controls()).paused, due.get(name))
            for name, one in descriptions.items()
        ]
        nothing = f"no map yet: {program()} add NAME URL"
        write_rows(rows, _columns(walks, now), as_json=opts.json, otherwise=nothing, spare=4)
        if not opts.json:
            why = reasons(walks) if opts.why else []
            for line in [*why, *several_a_day(descriptions.values())]:
                write_line(line)


def _next_walks(
    history: History | None,
    descriptions: Iterable[MapDescription],
    summaries: Mapping[str, MapSummary],
    now: datetime,
) -> dict[str, Decisions]:
    """Returns how each map will be walked. The decisions of a map that was never harvested have no layers."""
    from tileharvest.harvest.walks import WalkRecords, next_walks
    from tileharvest.renderers.registry import doubt_of

    if history is None:
        return {one.name: Decisions({}) for one in descriptions}
    records = WalkRecords.read(history)
    return {
        one.name: next_walks(
            records,
            one,
            summaries[one.name].depth,
            now.astimezone(one.zone_info).date(),
            doubt_of(one.renderer),
        )
        for one in descriptions
    }


def _row(
    description: MapDescription,
    summary: MapSummary,
    walk: Decisions,
    paused: str | None,
    due: Due | None,
) -> dict[str, Any]:
    return {
        "map": description.name,
        "url": description.url,
        "enabled": description.enabled,
        "paused": paused,
        "note": description.note,
        "due": due and due.moment.astimezone(description.zone_info).isoformat(timespec="seconds"),
        "due_because": due and due.why,
        "last_harvest": None
        if summary.day is None
        else {"day": summary.day.isoformat(), "reason": summary.reason or "unfinished"},
        "walk": walk.kind,
        "walk_reasons": {name: decision.reason for name, decision in walk.layers.items()},
        "tiles": summary.tiles,
        "versions": summary.versions,
        "bytes": summary.image_bytes,
    }


def reasons(walks: Mapping[str, Decisions]) -> list[str]:
    """Returns the lines that say why each harvested map will be walked as it will.

    A map has one line, or a line for each layer if its layers differ.
    """
    lines = []
    for name, walk in walks.items():
        said = {layer: decision.in_words for layer, decision in walk.layers.items()}
        if len(set(said.values())) == 1:
            lines.append(f"{name}: the next walk is {next(iter(said.values()))}")
        else:
            lines += [f"{name}, layer {layer}: the next walk is {words}" for layer, words in said.items()]
    return lines


def several_a_day(descriptions: Iterable[MapDescription]) -> list[str]:
    """Returns the lines about maps that are harvested more than once a day."""
    return [
        f'{one.name}: every = "{one.every}" harvests it several times a day; the history keeps one version a'
        " day, that of the last harvest"
        for one in descriptions
        if one.interval is not None and one.interval.length < timedelta(days=1)
    ]


def _columns(walks: Mapping[str, Decisions], now: datetime) -> Columns:
    """Returns the columns of the table of the maps, whose rows are those of `_row`."""
    return {
        "map": _name,
        "last harvest": _last_harvest,
        "next walk": lambda row: walks[row["map"]].in_short,
        ">tiles": "tiles",
        "due": lambda row: _due_in_words(row["due"], now),
        ">bytes": lambda row: bytes_in_words(row["bytes"]),
        ">versions": "versions",
        "url": "url",
        "note": "note",
    }


def _name(row: Mapping[str, Any]) -> str:
    states = ["not enabled"] * (not row["enabled"]) + ["paused"] * (row["paused"] is not None)
    return f"{row['map']} ({', '.join(states)})" if states else row["map"]


def _last_harvest(row: Mapping[str, Any]) -> str:
    last = row["last_harvest"]
    return "never" if last is None else f"{last['day']} {last['reason']}"


def _due_in_words(due: str | None, now: datetime) -> str:
    """Returns the moment at which a map is due, in its own time zone."""
    if due is None:
        return ""
    moment = datetime.fromisoformat(due)
    return "now" if moment <= now else f"{moment:%Y-%m-%d %H:%M}"
