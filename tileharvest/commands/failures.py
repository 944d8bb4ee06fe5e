"""`tileharvest failures NAME`: the requests of a map or a spider that failed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tileharvest.commands.project_command import Answer, ProjectCommand, switch
from tileharvest.commands.push import tile_order
from tileharvest.commands.settings import ask_history, queue_owner
from tileharvest.commands.terminal import first_of, table_of
from tileharvest.errors import ConfigurationError, counted
from tileharvest.history.settings import open_history
from tileharvest.history.summaries import FailedTile, failed_tiles, forget_failures
from tileharvest.politeness.robots import FORBIDDEN
from tileharvest.queue.codec import CodecError, decode
from tileharvest.queue.port import PUSHED, Entry, Failure

_MANY: Final = 3
"""After failing in this many harvests in a row, a tile will probably fail again. The command says so."""


class Command(ProjectCommand):
    summary = "List failed requests, put them back, or forget them"
    examples = ("my-server", "my-server --retry")
    options = {
        "--retry": switch("put all of them back into the queue"),
        "--clear": switch("forget all of them"),
    }

    def check(self, opts: Namespace) -> None:
        if opts.retry and opts.clear:
            raise ConfigurationError("--retry puts them back, --clear forgets them: leave one of them out")

    def answer(self, opts: Namespace) -> Answer:
        owner, tiles = queue_owner(self.settings, opts.name), []
        failures: Sequence[Failure] = owner.ask_if_any(lambda queue: queue.failures(), ())
        if owner.description is not None:
            tiles = ask_history(self.settings, lambda history: failed_tiles(history, owner.name)) or []
        number = len(tiles) + len(failures)
        nothing = f"no request of {owner.in_words} has failed"
        if not (opts.retry or opts.clear):
            rows = [*map(_plain_tile, tiles), *map(_plain, failures)]
            return rows, _table(rows, nothing)
        if tiles and opts.retry:
            bodies = [tile_order(owner, one.layer, one.tile, 1) for one in tiles]
            owner.push([Entry(body, PUSHED, None, 1) for body in bodies])
        if failures:
            ids, lane = [one.id for one in failures], PUSHED if opts.retry else None
            owner.ask(lambda queue: queue.take_up(ids, lane))
        if tiles:
            with open_history(self.settings) as history:
                forget_failures(history, owner.name)
        done = f"put back: a running {owner.run} asks again, or else the next one"
        if opts.clear:
            done = "forgotten"
        words = f"{counted(number, 'request')} of {owner.in_words} {done}" if number else nothing
        return {owner.kind: owner.name, "requests": number}, [words]


def _table(rows: Sequence[dict[str, Any]], nothing: str) -> list[str]:
    columns = {
        "tile": "tile",
        "address": "url",
        ">harvests": "harvests",
        "failed (UTC)": lambda row: row["failed"][:16].replace("T", " "),
        "last error": "reason",
    }
    lines = table_of(rows, columns, nothing)
    lasting = [row["tile"] for row in rows if row["harvests"] >= _MANY and row["reason"] != FORBIDDEN]
    if lasting:
        lines.append(
            f"{counted(len(lasting), 'tile')} failed in {_MANY} harvests or more: {first_of(lasting)}; what"
            " was known is kept; if it fails in a browser too, tell the map's owner"
        )
    return lines


def _plain_tile(failed: FailedTile) -> dict[str, Any]:
    """Returns the row of a tile that has failed."""
    return {
        "tile": f"{failed.layer}:{failed.tile}",
        "url": "",
        "segment": failed.segment,
        "reason": FORBIDDEN if failed.reason.startswith(FORBIDDEN) else failed.reason,
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
        "reason": failure.reason,
        "harvests": 1,
        "failed": datetime.fromtimestamp(failure.failed, UTC).isoformat(timespec="seconds"),
    }
