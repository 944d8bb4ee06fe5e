"""`scrapy resume NAME`: let the harvest of a paused map go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from tileharvest.commands.map_command import MapCommand
from tileharvest.commands.settings import ask_queue, queue_owner
from tileharvest.commands.terminal import write_json, write_line
from tileharvest.queue.orders import resume
from tileharvest.queue.settings import has_queue, is_worked_on

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.queue.port import RequestQueue


class Command(MapCommand, ScrapyCommand):
    def short_desc(self) -> str:
        return "Let the harvest of a paused map, or a paused spider, go on"

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        (name,) = args
        owner = queue_owner(settings, name)
        was_paused, is_running = False, False

        async def ask(queue: RequestQueue) -> tuple[bool, bool]:
            return await resume(queue), await is_worked_on(settings, name, queue)

        if has_queue(settings, name):
            was_paused, is_running = ask_queue(settings, name, ask)
        if opts.json:
            write_json({owner.kind: name, "was_paused": was_paused, "is_running": is_running})
        elif not was_paused:
            write_line(f"{owner.in_words} was not paused")
        elif is_running:
            write_line(f"{owner.in_words} goes on")
        else:
            write_line(
                f"{owner.in_words} is no longer paused: {owner.nobody}; scrapy {owner.run} {name} does"
            )
