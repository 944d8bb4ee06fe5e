"""`scrapy pause NAME`: let a map's harvest, or a spider, start no further request."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from tileharvest.commands.map_command import MapCommand
from tileharvest.commands.settings import ask_queue, queue_owner
from tileharvest.commands.terminal import write_json, write_line
from tileharvest.queue.orders import pause
from tileharvest.queue.settings import is_worked_on

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.queue.port import RequestQueue


class Command(MapCommand, ScrapyCommand):
    def short_desc(self) -> str:
        return (
            "Pause a map or a spider: requests on the way finish, no further one starts until"
            " scrapy resume NAME"
        )

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        (name,) = args
        owner = queue_owner(settings, name)
        now = datetime.now(owner.zone_info)
        since = f"{now:%Y-%m-%d %H:%M:%S %Z}"

        async def ask(queue: RequestQueue) -> tuple[str | None, bool]:
            return await pause(queue, since), await is_worked_on(settings, name, queue)

        before, is_running = ask_queue(settings, name, ask)
        if opts.json:
            write_json({owner.kind: name, "paused": before or since, "is_running": is_running})
        else:
            state = _state_of(before, is_running=is_running)
            write_line(f"{owner.in_words} {state}; scrapy resume {name} lets it go on")


def _state_of(before: str | None, *, is_running: bool) -> str:
    if before is not None:
        return f"is paused already, since {before}"
    if is_running:
        return "is paused: requests on the way finish, no further one starts"
    return "is paused: nobody works on it now, and the next run will wait"
