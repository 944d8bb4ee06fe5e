"""`tileharvest workers [NAME...]`: the workers of maps and spiders, a line each."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import Final

from tileharvest.commands.project_command import Answer, ProjectCommand
from tileharvest.commands.settings import queue_owner, queue_owners
from tileharvest.commands.terminal import table_of
from tileharvest.errors import ConfigurationError, duration_in_words, program
from tileharvest.queue.settings import is_shared, workers_of_all

WORKER_COLUMNS: Final = {
    "host": "host",
    ">pid": lambda row: str(row["pid"]),
    "segment": "segment",
    ">silent": lambda row: duration_in_words(row["heartbeat_age_seconds"]),
    ">finished": lambda row: f"{row['finished']:,}",
    ">leased": "leased",
}
"""The columns of a worker. With a map's name before them they fit into 80 characters."""


class Command(ProjectCommand):
    arguments = "[NAME...]"
    summary = "List the workers of maps and spiders"
    details = "Only a queue in Redis knows its workers."
    examples = ("", "my-server --json")

    def answer(self, opts: Namespace) -> Answer:
        if not is_shared(self.settings):
            raise ConfigurationError(
                "workers are only known where a queue in Redis is shared, and no Redis is named: set"
                f" REDIS_URL to that of the fleet; without one, {program()} queue NAME shows what waits"
            )
        owners = [queue_owner(self.settings, name) for name in opts.name] or queue_owners(self.settings)
        found = asyncio.run(workers_of_all(self.settings, [one.queue for one in owners]))
        rows = [{one.kind: one.name, **worker.as_plain()} for one in owners for worker in found[one.queue]]
        columns = {"name": lambda row: row.get("map") or row["spider"], **WORKER_COLUMNS}
        return rows, table_of(rows, columns, "no worker")
