"""`tileharvest failures NAME`: the requests of a map or a spider that failed."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from scrapy.commands import ScrapyCommand

from tileharvest.commands.project_command import ProjectCommand, switch
from tileharvest.commands.settings import ask_history, queue_owner
from tileharvest.commands.terminal import first_of, write_line, write_rows
from tileharvest.errors import ConfigurationError, counted
from tileharvest.politeness.reasons import FORBIDDEN
from tileharvest.queue.codec import CodecError, decode
from tileharvest.queue.port import Changes, Entry
from tileharvest.queue.requests import PUSHED

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from tileharvest.commands.terminal import Columns
    from tileharvest.queue.port import Failure, RequestQueue
    from tileharvest.tiles.grid import Tile

MANY: Final = 3
"""After failing in this many harvests in a row, a tile will probably fail again. The command says so."""

_NAMED: Final = 5
"""The most tiles that a line names."""

_ATTEMPTS: Final = re.compile(r" \((\d+) attempts?\)$")


class Command(ProjectCommand, ScrapyCommand):
    summary = "List failed requests, put them back, or forget them"
    examples = ("my-server", "my-server --retry")
    options = {
        "--retry": switch("put all of them back into the queue"),
        "--clear": switch("forget all of them"),
    }

    def check(self, opts: Namespace) -> None:
        if opts.retry and opts.clear:
            raise ConfigurationError("--retry puts them back, --clear forgets them: leave one of them out")

    def answer(self, opts: Namespace) -> None:
        owner = queue_owner(self.settings, opts.name)
        if opts.retry:
            number = owner.ask_if_any(partial(_take_up, puts_back=True), 0)
            write_line(
                f"the queue of {owner.in_words} has {counted(number, 'request')} again: a running {owner.run}"
                " goes on with that, else the next one"
            )
        elif opts.clear:
            number = owner.ask_if_any(partial(_take_up, puts_back=False), 0)
            write_line(f"the queue of {owner.in_words} has forgotten {counted(number, 'failure')}")
        else:
            failures: Sequence[Failure] = owner.ask_if_any(lambda queue: queue.failures(), ())
            in_a_row = None
            if failures and owner.description is not None:
                from tileharvest.history.summaries import failing

                in_a_row = ask_history(self.settings, lambda history: failing(history, opts.name))
            rows = [_plain(failure, in_a_row or {}) for failure in failures]
            nothing = f"no request of {owner.in_words} has failed"
            write_rows(rows, _COLUMNS, as_json=opts.json, otherwise=nothing)
            if not opts.json:
                _explain(opts.name, rows)


async def _take_up(queue: RequestQueue, *, puts_back: bool) -> int:
    """Forgets the failed requests, or puts them into the queue again. Returns their number."""
    failures = await queue.failures()
    entries = [Entry(one.body, PUSHED, None, max(1, one.priority)) for one in failures if puts_back]
    await queue.exchange(Changes(entries, [one.id for one in failures]), 0, time.time())
    return len(failures)


_COLUMNS: Final[Columns] = {
    "tile": "tile",
    "address": "url",
    ">attempts": "attempts",
    ">harvests": "harvests",
    "failed (UTC)": lambda row: f"{datetime.fromisoformat(row['failed']):%Y-%m-%d %H:%M}",
    "last error": "reason",
}


def _explain(map_name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Writes hints about failures that the next harvest will not mend."""
    forbidden = [row["tile"] or row["url"] for row in rows if row["attempts"] == 0]
    lasting = [row["tile"] or row["url"] for row in rows if row["attempts"] and row["harvests"] >= MANY]
    if lasting:
        write_line(
            f"{counted(len(lasting), 'tile')} failed in {MANY} harvests or more: {first_of(lasting, _NAMED)};"
            " what was known is kept; if an address fails in a browser too, tell the map's owner"
        )
    if forbidden:
        write_line(
            f"robots.txt forbids {counted(len(forbidden), 'tile')}: {first_of(forbidden, _NAMED)}; what was"
            f" known is kept; with the owner's permission write robots = false for map '{map_name}' in"
            " maps.toml"
        )


def _plain(failure: Failure, in_a_row: Mapping[tuple[str, Tile], int]) -> dict[str, Any]:
    harvests = 1
    try:
        queued = decode(failure.body)
    except CodecError:
        url, tile = "unreadable", None
    else:
        url, tile, asked = queued.url, None, queued.question
        if asked is not None and asked.tile is not None:
            harvests = in_a_row.get(asked.place, 1)
            tile = f"{asked.layer}:{asked.tile}" if asked.layer else str(asked.tile)
    said = _ATTEMPTS.search(failure.reason)
    # A forbidden request was never sent, so there was no attempt.
    attempts = 0 if failure.reason.startswith(FORBIDDEN) else int(said[1]) if said else failure.attempts
    return {
        "tile": tile,
        "url": url,
        "segment": failure.segment,
        # The reason says how often the server was asked. The queue only counts how often a worker took it.
        "attempts": attempts,
        "harvests": harvests,
        "failed": datetime.fromtimestamp(failure.failed, UTC).isoformat(timespec="seconds"),
        "reason": failure.reason if attempts else FORBIDDEN,
    }
