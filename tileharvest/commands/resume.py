"""`tileharvest resume NAME`: let the harvest of a paused map go on."""

from __future__ import annotations

from argparse import Namespace

from tileharvest.commands.project_command import Answer, ProjectCommand
from tileharvest.commands.settings import queue_owner
from tileharvest.errors import program
from tileharvest.queue.controls import resume


class Command(ProjectCommand):
    summary = "Let a paused map or spider go on"
    examples = ("my-server", "my-server --json")

    def answer(self, opts: Namespace) -> Answer:
        owner = queue_owner(self.settings, opts.name)
        was_paused, is_running = owner.ask_if_any(resume, otherwise=False), owner.workers > 0
        state = "goes on" if was_paused else "was not paused"
        if was_paused and not is_running:
            state = f"is no longer paused; nobody works on it now: run {program()} {owner.run} {owner.name}"
        result = {owner.kind: owner.name, "was_paused": was_paused, "is_running": is_running}
        return result, [f"{owner.in_words} {state}"]
