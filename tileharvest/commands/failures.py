"""`tileharvest failures NAME`: the requests of a map or a spider that failed."""

from __future__ import annotations

import re
import time
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from scrapy.commands import ScrapyCommand

from tileharvest.commands.project_command import ProjectCommand, switch
from tileharvest.commands.settings import ask_history, queue_owner
from tileharvest.commands.terminal import first_of, write_line, write_rows
from tileharvest.errors import ConfigurationError, counted
from tileharvest.politeness.hold import FORBIDDEN
from tileharvest.queue.codec import CodecError, decode
from tileharvest.queue.port import PUSHED, pushed

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from tileharvest.commands.settings import QueueOwner
    from tileharvest.commands.terminal import Columns
    from tileharvest.history.summaries import FailedTile
    from tileharvest.queue.port import Failure, RequestQueue

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
        nothing = f"no request of {owner.in_words} has failed"
        if opts.retry:
            number = _put_back(self.settings, owner)
            write_line(
                f"{counted(number, 'request')} of {owner.in_words} put back: a running {owner.run} asks"
                " again, or else the next one"
                if number
                else nothing
            )
        elif opts.clear:
            number = len(_tiles(self.settings, owner)) + owner.ask_if_any(
                partial(_take_up, puts_back=False), 0
            )
            _forget(self.settings, owner)
            write_line(f"{counted(number, 'failure')} of {owner.in_words} forgotten" if number else nothing)
        else:
            failures: Sequence[Failure] = owner.ask_if_any(lambda queue: queue.failures(), ())
            rows = [*map(_plain_tile, _tiles(self.settings, owner)), *map(_plain, failures)]
            write_rows(rows, _COLUMNS, as_json=opts.json, otherwise=nothing)
            if not opts.json:
                _explain(opts.name, rows)


def _tiles(settings: BaseSettings, owner: QueueOwner) -> list[FailedTile]:
    """Returns the failed tiles of a map. A spider has none."""
    if owner.description is None:
        return []
    from tileharvest.history.summaries import failed_tiles

    return ask_history(settings, lambda history: failed_tiles(history, owner.name)) or []


def _forget(settings: BaseSettings, owner: QueueOwner) -> None:
    from tileharvest.history.database import History
    from tileharvest.history.settings import database_url
    from tileharvest.history.summaries import forget_failures

    if owner.description is not None and _tiles(settings, owner):
        with History.open(database_url(settings)) as history:
            forget_failures(history, owner.name)


def _put_back(settings: BaseSettings, owner: QueueOwner) -> int:
    """Puts what has failed into the queue again. Returns the number of requests."""
    from tileharvest.commands.push import tile_order

    tiles = _tiles(settings, owner)
    if tiles:
        owner.push([pushed(tile_order(owner, one.layer, one.tile, 1)) for one in tiles])
        _forget(settings, owner)
    return len(tiles) + owner.ask_if_any(partial(_take_up, puts_back=True), 0)


async def _take_up(queue: RequestQueue, *, puts_back: bool) -> int:
    """Forgets the failed requests, or puts them into the queue again. Returns their number."""
    ids = [one.id for one in await queue.failures()]
    return await queue.take_up(ids, PUSHED if puts_back else None, time.time())


_COLUMNS: Final[Columns] = {
    "tile": "tile",
    "address": "url",
    ">attempts": "attempts",
    ">harvests": "harvests",
    "failed (UTC)": lambda row: row["failed"][:16].replace("T", " "),
    "last error": "reason",
}


def _explain(map_name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Writes hints about failures that the next harvest will not repair."""
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


def _plain_tile(failed: FailedTile) -> dict[str, Any]:
    """Returns the row of a tile that has failed."""
    return {
        "tile": f"{failed.layer}:{failed.tile}",
        "url": "",
        "segment": failed.segment,
        **_reason(failed.reason, 1),
        "harvests": failed.in_a_row,
        "failed": failed.day.isoformat(),
    }


def _plain(failure: Failure) -> dict[str, Any]:
    """Returns the row of a request that was given up."""
    try:
        url = decode(failure.body).url
    except CodecError:
        url = "unreadable"
    return {
        "tile": None,
        "url": url,
        "segment": failure.segment,
        **_reason(failure.reason, failure.attempts),
        "harvests": 1,
        "failed": datetime.fromtimestamp(failure.failed, UTC).isoformat(timespec="seconds"),
    }


def _reason(reason: str, attempts: int) -> dict[str, Any]:
    """Returns what the reason of a failure says."""
    said = _ATTEMPTS.search(reason)
    # A forbidden request was never sent, so there was no attempt.
    attempts = 0 if reason.startswith(FORBIDDEN) else int(said[1]) if said else attempts
    return {
        # The reason says how often the server was asked. The queue only counts how often a worker took it.
        "attempts": attempts,
        "reason": reason if attempts else FORBIDDEN,
    }
