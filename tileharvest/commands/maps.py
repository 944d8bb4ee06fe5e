"""`scrapy maps`: the configured maps and what is known of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from tileharvest.errors import QueueError
from tileharvest.history.reading import MapSummary, map_summaries
from tileharvest.map_command import MapCommand
from tileharvest.scheduling import directions_for
from tileharvest.terminal import bytes_in_words, write_error, write_json, write_line, write_table
from tileharvest.wiring import all_maps, has_history, open_history_for_reading

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

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
        paused = asyncio.run(_paused(settings, descriptions))
        rows = [_row(one, summaries.get(name), paused[name]) for name, one in descriptions.items()]
        if opts.json:
            write_json(rows)
        else:
            _write(rows)


async def _paused(settings: BaseSettings, names: Iterable[str]) -> dict[str, str | None]:
    """Since when each map is paused; all are asked at once."""
    names = list(names)
    return dict(zip(names, await asyncio.gather(*(_since(settings, name) for name in names)), strict=True))


async def _since(settings: BaseSettings, name: str) -> str | None:
    """None also where the queue cannot tell: the list is of use without it."""
    try:
        return (await directions_for(settings, name)).paused
    except QueueError as error:
        write_error(str(error))
        return None


def _row(description: MapDescription, summary: MapSummary | None, paused: str | None) -> dict[str, Any]:
    last = None if summary is None else summary.last_harvest
    return {
        "map": description.name,
        "url": description.url,
        "enabled": description.enabled,
        "paused": paused,
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
    states = ["not enabled"] * (not row["enabled"]) + ["paused"] * (row["paused"] is not None)
    return [
        f"{row['map']} ({', '.join(states)})" if states else row["map"],
        "never" if last is None else f"{last['day']} {last['reason']}",
        f"{row['tiles']:,}",
        f"{row['versions']:,}",
        bytes_in_words(row["bytes"]),
        row["url"],
        row["note"],
    ]
