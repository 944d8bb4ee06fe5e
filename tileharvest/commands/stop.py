"""`tileharvest stop NAME`: let all workers of a map or a spider end now."""

from __future__ import annotations

from argparse import Namespace

from tileharvest.commands.project_command import Answer, ProjectCommand
from tileharvest.commands.settings import queue_owner
from tileharvest.errors import TileHarvestError
from tileharvest.queue.controls import stop


class Command(ProjectCommand):
    summary = "Stop a running harvest or spider, which can be continued"
    examples = ("my-server", "my-server --json")

    def answer(self, opts: Namespace) -> Answer:
        owner = queue_owner(self.settings, opts.name)
        # A worker that begins later does not obey the order.
        owner.ask_if_any(stop, None)
        if not owner.workers:
            raise TileHarvestError(f"nobody works on {owner.in_words} now: there is nothing to stop")
        words = (
            f"{owner.in_words} is stopping: requests on the way finish, and nothing is lost;"
            f" run it again in its segment to continue where it stopped"
        )
        return {owner.kind: owner.name, "stopping": True}, [words]
