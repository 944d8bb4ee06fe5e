"""`scrapy maps`: the configured maps and what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from tileharvest.history.reading import MapSummary, map_summaries
from tileharvest.map_command import MapCommand
from tileharvest.terminal import bytes_in_words, write_json, write_line, write_table
from tileharvest.wiring import all_maps, has_history, open_history_for_reading

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.maps.description import MapDescription


class Command(MapCommand):
    def syntax(self) -> str:
        return "[options]"

    def short_desc(self) -> str:
        return "List the configured maps with their last harvest, tiles, versions and bytes"

    def check(self, args: list[str]) -> None:
        if args:
            raise UsageError("scrapy maps takes no arguments", print_help=False)

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        descriptions = all_maps(settings)
        summaries: dict[str, MapSummary] = {}
        if has_history(settings):
            with open_history_for_reading(settings) as history:
                summaries = {summary.name: summary for summary in map_summaries(history)}
        rows = [_row(description, summaries.get(name)) for name, description in descriptions.items()]
        if opts.json:
            write_json(rows)
        else:
            _write(rows)


def _row(description: MapDescription, summary: MapSummary | None) -> dict[str, Any]:
    last = None if summary is None else summary.last_harvest
    return {
        "map": description.name,
        "url": description.url,
        "enabled": description.enabled,
        "note": description.note,
        "last_harvest": None
        if last is None
        else {"day": last.day.isoformat(), "reason": last.reason or "unfinished"},
        "tiles": 0 if summary is None else summary.tiles,
        "versions": 0 if summary is None else summary.versions,
        "bytes": 0 if summary is None else summary.image_bytes,
    }


def _write(rows: list[dict[str, Any]]) -> None:
    columns = ["map", "last harvest", ">tiles", ">versions", ">bytes", "url", "note"]
    write_table(columns, [_in_words(row) for row in rows])
    if not rows:
        write_line("no map yet: scrapy add NAME URL")


def _in_words(row: dict[str, Any]) -> list[str]:
    last = row["last_harvest"]
    return [
        row["map"] if row["enabled"] else f"{row['map']} (not enabled)",
        "never" if last is None else f"{last['day']} {last['reason']}",
        f"{row['tiles']:,}",
        f"{row['versions']:,}",
        bytes_in_words(row["bytes"]),
        row["url"],
        row["note"],
    ]
