"""A program for test_scheduler_kill: a crawl by a stub spider that is killed at one step of an exchange.

Arguments: the file of runs, the step's name, and how many times it is let pass first. Without a step it is
`crawl_stubs`.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from typing import Any, Final, NamedTuple

from tests.scheduler import crawl_stubs
from tests.scheduler.stub_spiders import AppendingPipeline
from tileharvest.queue.sqlite.queue import SqliteQueue
from tileharvest.queue.sqlite.statements import Statements


class Step(NamedTuple):
    owner: Any
    function: str
    before: bool
    """Killed before the call, else after it."""


STEPS: Final = {
    "nothing exchanged": Step(SqliteQueue, "exchange", before=True),
    "pushed, not finished": Step(Statements, "finish", before=True),
    "leased, not committed": Step(Statements, "lease_next", before=False),
    "committed, nobody told": Step(SqliteQueue, "_transact", before=False),
    "asked, not recorded": Step(AppendingPipeline, "process_item", before=True),
    "recorded, lease not finished": Step(AppendingPipeline, "process_item", before=False),
}


def kill_at(step: Step, passes: int) -> None:
    """Let the call after `passes` others be the last thing that this process does."""
    original: Any = getattr(step.owner, step.function)
    calls = count()

    def killing(*arguments: Any, **keywords: Any) -> Any:
        last = next(calls) == passes
        if last and step.before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **keywords)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(step.owner, step.function, killing)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        kill_at(STEPS[sys.argv[2]], passes=int(sys.argv[3]))
    crawl_stubs.main()
