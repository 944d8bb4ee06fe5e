"""`scrapy pause NAME`: let a map's harvest, or a spider, start no further request."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from tileharvest.commands.project_command import ProjectCommand
from tileharvest.commands.settings import queue_owner
from tileharvest.commands.terminal import write_answer
from tileharvest.queue.orders import pause

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.queue.port import RequestQueue


class Command(ProjectCommand, ScrapyCommand):
    summary = "Pause a map or a spider, until scrapy resume NAME"
    details = "Requests on the way finish, and no further request starts."

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        owner = queue_owner(settings, args[0])
        since = f"{datetime.now(owner.zone_info):%Y-%m-%d %H:%M:%S %Z}"

        async def ask(queue: RequestQueue) -> tuple[str | None, bool]:
            return await pause(queue, since), await owner.is_worked_on(queue)

        before, is_running = owner.ask(ask)
        told = {owner.kind: owner.name, "paused": before or since, "is_running": is_running}
        state = _state_of(before, is_running=is_running)
        words = f"{owner.in_words} {state}; scrapy resume {owner.name} lets it go on"
        write_answer(told, words, as_json=opts.json)


def _state_of(before: str | None, *, is_running: bool) -> str:
    if before is not None:
        return f"is paused already, since {before}"
    if is_running:
        return "is paused: requests on the way finish, no further one starts"
    return "is paused: nobody works on it now, and the next run will wait"
