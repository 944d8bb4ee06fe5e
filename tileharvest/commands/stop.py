"""`scrapy stop NAME`: let all workers end that harvest a map now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from tileharvest.commands.map_command import MapCommand
from tileharvest.commands.settings import ask_queue
from tileharvest.commands.terminal import write_json, write_line
from tileharvest.errors import TileHarvestError
from tileharvest.maps.settings import described_map
from tileharvest.queue.orders import stop
from tileharvest.queue.settings import has_queue, is_worked_on

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.queue.port import RequestQueue


class Command(MapCommand, ScrapyCommand):
    def short_desc(self) -> str:
        return "Stop the running harvest of a map, so that it can be continued; also a paused one"

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        (name,) = args
        described_map(settings, name)

        async def tell(queue: RequestQueue) -> bool:
            if not await is_worked_on(settings, name, queue):
                return False
            await stop(queue)
            return True

        if not (has_queue(settings, name) and ask_queue(settings, name, tell)):
            raise TileHarvestError(f"nobody harvests map '{name}' now: there is nothing to stop")
        if opts.json:
            write_json({"map": name, "stopping": True})
        else:
            write_line(
                f"map '{name}' is stopping: requests on the way finish, and nothing is lost;"
                f" run it again in its segment to continue where it stopped"
            )
