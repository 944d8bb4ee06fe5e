"""`tileharvest failures NAME`: the requests of a map or a spider that failed."""

from __future__ import annotations

import re
import time
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from scrapy.commands import ScrapyCommand

from tileharvest.commands.project_command import ProjectCommand, switch
from tileharvest.commands.push import tile_order
from tileharvest.commands.settings import ask_history, queue_owner
from tileharvest.commands.terminal import first_of, write_line, write_rows
from tileharvest.errors import ConfigurationError, counted
from tileharvest.politeness.robots import FORBIDDEN
from tileharvest.queue.codec import CodecError, decode
from tileharvest.queue.port import PUSHED, pushed

if TYPE_CHECKING:
    from tileharvest.commands.settings import QueueOwner
    from tileharvest.commands.terminal import Columns
    from tileharvest.history.summaries import FailedTile
    from tileharvest.queue.port import Failure

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
        failures: Sequence[Failure] = owner.ask_if_any(lambda queue: queue.failures(), ())
        tiles = _tiles(owner)
        nothing = f"no request of {owner.in_words} has failed"
        if not (opts.retry or opts.clear):
            rows = [*map(_plain_tile, tiles), *map(_plain, failures)]
            write_rows(rows, _COLUMNS, as_json=opts.json, otherwise=nothing)
            if not opts.json:
                _explain(opts.name, rows)
            return
        if tiles and opts.retry:
            owner.push([pushed(tile_order(owner, one.layer, one.tile, 1)) for one in tiles])
        if failures:
            ids, lane = [one.id for one in failures], PUSHED if opts.retry else None
            owner.ask(lambda queue: queue.take_up(ids, lane, time.time()))
        if tiles:
            _forget(owner)
        number = len(tiles) + len(failures)
        if not number:
            write_line(nothing)
        elif opts.retry:
            write_line(
                f"{counted(number, 'request')} of {owner.in_words} put back: a running {owner.run} asks"
                " again, or else the next one"
            )
        else:
            write_line(f"{counted(number, 'failure')} of {owner.in_words} forgotten")


def _tiles(owner: QueueOwner) -> list[FailedTile]:
    """Returns the failed tiles of a map. A spider has none."""
    if owner.description is None:
        return []
    from tileharvest.history.summaries import failed_tiles

    return ask_history(owner.settings, lambda history: failed_tiles(history, owner.name)) or []


def _forget(owner: QueueOwner) -> None:
    from tileharvest.history.database import History
    from tileharvest.history.settings import database_url
    from tileharvest.history.summaries import forget_failures

    with History.open(database_url(owner.settings)) as history:
        forget_failures(history, owner.name)


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
    permission = f"with the owner's permission write robots = false for map '{map_name}' in maps.toml"
    for places, what, advice in (
        (lasting, f"failed in {MANY} harvests or more", "if it fails in a browser too, tell the map's owner"),
        (forbidden, "forbidden by robots.txt", permission),
    ):
        if places:
            named = first_of(places, _NAMED)
            write_line(f"{counted(len(places), 'tile')} {what}: {named}; what was known is kept; {advice}")


def _plain_tile(failed: FailedTile) -> dict[str, Any]:
    """Returns the row of a tile that has failed."""
    place = {"tile": f"{failed.layer}:{failed.tile}", "url": "", "segment": failed.segment}
    when = {"harvests": failed.in_a_row, "failed": failed.day.isoformat()}
    return place | _reason(failed.reason, 1) | when


def _plain(failure: Failure) -> dict[str, Any]:
    """Returns the row of a request that was given up."""
    try:
        url = decode(failure.body).url
    except CodecError:
        url = "unreadable"
    place = {"tile": None, "url": url, "segment": failure.segment}
    moment = datetime.fromtimestamp(failure.failed, UTC).isoformat(timespec="seconds")
    return place | _reason(failure.reason, failure.attempts) | {"harvests": 1, "failed": moment}


def _reason(reason: str, attempts: int) -> dict[str, Any]:
    """Returns what the reason of a failure says."""
    if reason.startswith(FORBIDDEN):
        # The request was never sent, so there was no attempt.
        return {"attempts": 0, "reason": FORBIDDEN}
    # The reason says how often the server was asked. The queue only counts how often a worker took it.
    said = _ATTEMPTS.search(reason)
    return {"attempts": int(said[1]) if said else attempts, "reason": reason}
