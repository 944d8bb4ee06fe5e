"""`tileharvest pause NAME`: let a map's harvest, or a spider, start no further request."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime

from tileharvest.commands.project_command import Answer, ProjectCommand
from tileharvest.commands.settings import queue_owner
from tileharvest.errors import program
from tileharvest.queue.controls import pause


class Command(ProjectCommand):
    summary = "Pause a map or a spider, until it is resumed"
    details = "Requests on the way finish, and no further request starts."
    examples = ("my-server", "my-server --json")

    def answer(self, opts: Namespace) -> Answer:
        owner = queue_owner(self.settings, opts.name)
        since = f"{datetime.now(owner.zone_info):%Y-%m-%d %H:%M:%S %Z}"
        before = owner.ask(lambda queue: pause(queue, since))
        state = "is paused: requests on the way finish, no further one starts"
        if before is not None:
            state = f"is paused already, since {before}"
        result = {owner.kind: owner.name, "paused": before or since, "is_running": owner.workers > 0}
        words = f"{owner.in_words} {state}; {program()} resume {owner.name} lets it go on"
        return result, [words]
