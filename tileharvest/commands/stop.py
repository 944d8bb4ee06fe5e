"""`scrapy stop NAME`: let all workers of a map or a spider end now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from tileharvest.commands.map_command import MapCommand
from tileharvest.commands.settings import ask_queue, queue_owner
from tileharvest.commands.terminal import write_json, write_line
from tileharvest.errors import TileHarvestError
from tileharvest.queue.orders import stop
from tileharvest.queue.settings import has_queue, is_worked_on

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.queue.port import RequestQueue


class Command(MapCommand, ScrapyCommand):
    def short_desc(self) -> str:
        return "Stop the running harvest of a map, or a running spider, so that it can be continued"

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        (name,) = args
        owner = queue_owner(settings, name)

        async def tell(queue: RequestQueue) -> bool:
            if not await is_worked_on(settings, name, queue):
                return False
            await stop(queue)
            return True

        if not (has_queue(settings, name) and ask_queue(settings, name, tell)):
            raise TileHarvestError(f"{owner.nobody}: there is nothing to stop")
        if opts.json:
            write_json({owner.kind: name, "stopping": True})
        else:
            write_line(
                f"{owner.in_words} is stopping: requests on the way finish, and nothing is lost;"
                f" run it again in its segment to continue where it stopped"
            )
