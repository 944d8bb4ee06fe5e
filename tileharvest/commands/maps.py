"""`tileharvest maps`: the configured maps and what is known of them."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from tileharvest.commands.due_maps import dues_of
from tileharvest.commands.project_command import Answer, ProjectCommand, switch
from tileharvest.commands.terminal import table_of, write_error
from tileharvest.errors import program
from tileharvest.harvest.due import Due
from tileharvest.harvest.walks import next_walks
from tileharvest.history.settings import open_history_if_any
from tileharvest.history.summaries import MapSummary, map_summaries
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.description import MapDescription
from tileharvest.maps.settings import all_maps
from tileharvest.queue.controls import Controls
from tileharvest.queue.settings import controls_for_all
from tileharvest.renderers.registry import doubt_of
from tileharvest.walk.decision import Decisions


class Command(ProjectCommand):
    arguments = ""
    summary = "List the maps with their last harvest, size, and next harvest"
    examples = ("", "--why")
    options = {"--why": switch("say why each map's next walk is as it is")}

    def answer(self, opts: Namespace) -> Answer:
        descriptions, now = all_maps(self.settings), datetime.now(UTC)
        walks, summaries = {name: Decisions({}) for name in descriptions}, {}
        with open_history_if_any(self.settings) or nullcontext() as history:
            due = dues_of(self.settings, history, descriptions.values(), now)
            if history is not None:
                summaries = {one.name: one for one in map_summaries(history) if one.name in descriptions}
                for name, summary in summaries.items():
                    one = descriptions[name]
                    today = now.astimezone(one.zone_info).date()
                    walks[name] = next_walks(history, one, summary.depth, today, doubt_of(one.renderer))
        controls, faults = asyncio.run(controls_for_all(self.settings, list(descriptions)))
        for fault in faults:
            # The list is useful without the orders.
            write_error(str(fault))
        rows = [
            {
                **_plain(one, due.get(name), summaries.get(name)),
                "paused": controls.get(name, Controls()).paused,
                "walk": walks[name].kind,
                "walk_reasons": {layer: found.reason for layer, found in walks[name].layers.items()},
            }
            for name, one in descriptions.items()
        ]
        columns = {
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
        nothing = f"no map yet: {program()} add NAME URL"
        lines = table_of(rows, columns, nothing, spare=4)
        for name, walk in walks.items() if opts.why else ():
            words = dict.fromkeys(decision.in_words for decision in walk.layers.values())
            if words:
                lines.append(f"{name}: the next walk is {'; '.join(words)}")
        for one in descriptions.values():
            if one.interval is not None and one.interval.length < timedelta(days=1):
                lines.append(
                    f'{one.name}: every = "{one.every}" harvests it several times a day; the history keeps'
                    " one version a day, that of the last harvest"
                )
        return rows, lines


def _plain(description: MapDescription, due: Due | None, summary: MapSummary | None) -> dict[str, Any]:
    """Returns a map for programs. The history may have nothing of it."""
    last = None
    if summary is not None and summary.day is not None:
        last = {"day": summary.day.isoformat(), "reason": summary.reason or "unfinished"}
    return {
        "map": description.name,
        "url": description.url,
        "enabled": description.enabled,
        "note": description.note,
        "due": due and due.moment.astimezone(description.zone_info).isoformat(timespec="seconds"),
        "due_because": due and due.why,
        "last_harvest": last,
        "tiles": summary.tiles if summary else 0,
        "versions": summary.versions if summary else 0,
        "bytes": summary.image_bytes if summary else 0,
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
