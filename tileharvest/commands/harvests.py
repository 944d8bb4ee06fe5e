"""`scrapy harvests NAME`: the harvests of a map, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileharvest.history.reading import HarvestSummary, harvest_summaries
from tileharvest.map_command import MapCommand
from tileharvest.outcomes import Outcome
from tileharvest.terminal import bytes_in_words, counts_as_plain, write_json, write_table
from tileharvest.wiring import open_history_for_reading

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings


class Command(MapCommand):
    def short_desc(self) -> str:
        return "List a map's harvests with their counts per outcome, oldest first"

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        with open_history_for_reading(settings) as history:
            summaries = harvest_summaries(history, args[0])
        if opts.json:
            write_json([_plain(summary) for summary in summaries])
        else:
            _write(summaries)


def _plain(summary: HarvestSummary) -> dict[str, Any]:
    return {
        "segment": summary.segment,
        "day": summary.day.isoformat(),
        "started": summary.started.isoformat(),
        "ended": summary.ended.isoformat() if summary.ended else None,
        "reason": summary.reason,
        "renderer": summary.renderer,
        "depth": summary.depth,
        "counts": counts_as_plain(summary.counts),
        "requests": summary.requests,
        "received_bytes": summary.received_bytes,
        "stored_bytes": summary.stored_bytes,
    }


def _write(summaries: list[HarvestSummary]) -> None:
    outcomes = [f">{outcome.value}" for outcome in Outcome]
    write_table(
        ["day", "began (UTC)", ">seconds", "end", ">depth", *outcomes, ">requests", ">received", ">stored"],
        [_line(summary) for summary in summaries],
    )


def _line(summary: HarvestSummary) -> list[str]:
    took = f"{(summary.ended - summary.started).total_seconds():.0f}" if summary.ended else ""
    return [
        summary.day.isoformat(),
        f"{summary.started:%Y-%m-%d %H:%M}",
        took,
        summary.reason or "unfinished",
        ", ".join(str(depth) for depth in sorted(set(summary.depth.values()))),
        *(f"{summary.counts.get(outcome, 0):,}" for outcome in Outcome),
        f"{summary.requests:,}",
        bytes_in_words(summary.received_bytes),
        bytes_in_words(summary.stored_bytes),
    ]
