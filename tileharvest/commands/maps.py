"""`scrapy maps`: the configured maps and what is known of them."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from scrapy.commands import ScrapyCommand

from tileharvest.commands.due_maps import dues
from tileharvest.commands.map_command import MapCommand
from tileharvest.commands.settings import ask_each
from tileharvest.commands.terminal import write_error, write_json, write_line, write_table
from tileharvest.errors import ConfigurationError, QueueError
from tileharvest.harvest.settings import times_for
from tileharvest.harvest.walks import next_walks
from tileharvest.history.settings import has_history, open_history_for_reading, open_history_if_any
from tileharvest.history.summaries import MapSummary, map_summaries
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.settings import all_maps
from tileharvest.queue.settings import orders_for
from tileharvest.walk.decision import Decisions

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from scrapy.settings import BaseSettings

    from tileharvest.harvest.due import Due
    from tileharvest.history.database import History
    from tileharvest.maps.description import MapDescription
    from tileharvest.walk.decision import Decision


class Command(MapCommand, ScrapyCommand):
    form = "[options]"
    summary = "List the configured maps with their last harvest, tiles, versions, bytes and next walk"
    arguments = range(1)
    usage = "scrapy maps takes no arguments"

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        descriptions = all_maps(settings)
        summaries = {name: MapSummary(name, None, 0, 0, 0) for name in descriptions}
        walks = {name: Decisions({}) for name in descriptions}
        if has_history(settings):
            with open_history_for_reading(settings) as history:
                summaries |= {one.name: one for one in map_summaries(history)}
                walks = {
                    name: _next_walk(history, description, summaries[name])
                    for name, description in descriptions.items()
                }
        since = ask_each(descriptions, lambda name: _paused_since(settings, name))
        paused = dict(zip(descriptions, since, strict=True))
        due = _due(settings, descriptions.values())
        known = [
            (one, summaries[name], walks[name], paused[name], due.get(name))
            for name, one in descriptions.items()
        ]
        if opts.json:
            write_json([_row(*one) for one in known])
            return
        _write([_in_words(*one) for one in known])
        for name, walk in walks.items():
            _write_walk(name, walk)


def _next_walk(history: History, description: MapDescription, summary: MapSummary) -> Decisions:
    """Tells how the map will be walked. What it returns has no layers if the map was never harvested."""
    if summary.last_harvest is None:
        return Decisions({})
    today = datetime.now(description.zone_info).date()
    return next_walks(history, description, summary.last_harvest.depth, today)


def _due(settings: BaseSettings, descriptions: Iterable[MapDescription]) -> dict[str, Due]:
    """Tells when each enabled map is due. One that is never due is left out."""
    now, times = datetime.now(UTC), []
    for one in descriptions:
        # `scrapy run` says why a map is never due.
        with suppress(ConfigurationError):
            times += [times_for(settings, one, now)] if one.enabled else []
    with open_history_if_any(settings) or nullcontext() as history:
        return dues(history, times, now)


async def _paused_since(settings: BaseSettings, name: str) -> str | None:
    """Returns None also if the queue cannot be asked: the list is of use without it."""
    try:
        return (await orders_for(settings, name)).paused
    except QueueError as error:
        write_error(str(error))
        return None


def _row(
    description: MapDescription,
    summary: MapSummary,
    walk: Decisions,
    paused: str | None,
    due: Due | None,
) -> dict[str, Any]:
    last = summary.last_harvest
    return {
        "map": description.name,
        "url": description.url,
        "enabled": description.enabled,
        "paused": paused,
        "note": description.note,
        "due": due and due.moment.astimezone(description.zone_info).isoformat(timespec="seconds"),
        "due_because": due and due.why,
        "last_harvest": None
        if last is None
        else {"day": last.day.isoformat(), "reason": last.reason or "unfinished"},
        "walk": "pruned" if walk.is_pruned else "full",
        "proofs": {name: _proof(decision) for name, decision in walk.layers.items()},
        "tiles": summary.tiles,
        "versions": summary.versions,
        "bytes": summary.image_bytes,
    }


def _proof(decision: Decision) -> dict[str, Any]:
    """Tells how the layer will be walked, and what is proved of it. What is not known is null."""
    stored = decision.stored
    said = {"walk": "pruned" if decision.is_pruned else "full", "reason": decision.reason}
    if stored is None:
        return {**said, "holds": False} | dict.fromkeys(_PROVED)
    proof, withdrawn_day = stored.proof, stored.withdrawn_day
    values = (
        stored.day.isoformat(),
        proof.pairs,
        proof.broken,
        proof.undated,
        proof.span,
        stored.withdrawn,
        None if withdrawn_day is None else withdrawn_day.isoformat(),
    )
    holds = proof.holds and stored.withdrawn is None
    return {**said, "holds": holds, **dict(zip(_PROVED, values, strict=True))}


_PROVED: Final = ("day", "pairs", "broken", "undated", "span_seconds", "withdrawn", "withdrawn_day")


def _write(rows: Sequence[Sequence[str]]) -> None:
    columns = ["map", "last harvest", "next walk", ">tiles", ">versions", ">bytes", "due", "url", "note"]
    write_table(columns, rows)
    if not rows:
        write_line("no map yet: scrapy add NAME URL")


def _write_walk(name: str, walk: Decisions) -> None:
    """Writes why the map will be walked so: one line, or one for each layer if they differ."""
    said = {layer: decision.in_words for layer, decision in walk.layers.items()}
    if len(set(said.values())) == 1:
        write_line(f"{name}: the next walk is {next(iter(said.values()))}")
        return
    for layer, words in said.items():
        write_line(f"{name}, layer {layer}: the next walk is {words}")


def _in_words(
    description: MapDescription,
    summary: MapSummary,
    walk: Decisions,
    paused: str | None,
    due: Due | None,
) -> list[str]:
    last = summary.last_harvest
    states = ["not enabled"] * (not description.enabled) + ["paused"] * (paused is not None)
    return [
        f"{description.name} ({', '.join(states)})" if states else description.name,
        "never" if last is None else f"{last.day} {last.reason or 'unfinished'}",
        walk.in_short,
        f"{summary.tiles:,}",
        f"{summary.versions:,}",
        bytes_in_words(summary.image_bytes),
        _moment_in_words(description, due),
        description.url,
        description.note,
    ]


def _moment_in_words(description: MapDescription, due: Due | None) -> str:
    """Returns a time by the clocks of the map's zone."""
    if due is None:
        return ""
    if due.is_now(datetime.now(UTC)):
        return "now"
    return f"{due.moment.astimezone(description.zone_info):%Y-%m-%d %H:%M}"
