"""`tileharvest pause NAME`: let a map's harvest, or a spider, start no further request."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime

from tileharvest.commands.project_command import ProjectCommand
from tileharvest.commands.settings import queue_owner
from tileharvest.commands.terminal import write_answer
from tileharvest.errors import program
from tileharvest.queue.controls import pause


class Command(ProjectCommand):
    summary = "Pause a map or a spider, until it is resumed"
    details = "Requests on the way finish, and no further request starts."
    examples = ("my-server", "my-server --json")

    def answer(self, opts: Namespace) -> None:
        owner = queue_owner(self.settings, opts.name)
        since = f"{datetime.now(owner.zone_info):%Y-%m-%d %H:%M:%S %Z}"
        before = owner.ask(lambda queue: pause(queue, since))
        state = "is paused: requests on the way finish, no further one starts"
        if before is not None:
            state = f"is paused already, since {before}"
        result = {owner.kind: owner.name, "paused": before or since, "is_running": owner.workers > 0}
        words = f"{owner.in_words} {state}; {program()} resume {owner.name} lets it go on"
        write_answer(result, words, as_json=opts.json)
