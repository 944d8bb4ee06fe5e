"""A program for test_scheduler_kill: a crawl by a stub spider, which is killed at one step of an exchange.

Its arguments are the file of runs, the name of the step, and how many times the step passes before the kill.
Without a step the program does the same as `crawl_stubs`.
"""

from __future__ import annotations

import sys
from typing import Final

from tests.crash.steps import Step, kill_at
from tests.scheduler import crawl_stubs
from tests.scheduler.stub_spiders import AppendingPipeline
from tileharvest.queue.sqlite.queue import SqliteQueue

STEPS: Final = {
    "nothing exchanged": Step(SqliteQueue, "exchange", before=True),
    "pushed, not finished": Step(SqliteQueue, "_end", before=True),
    "leased, not committed": Step(SqliteQueue, "_lease", before=False),
    "committed, nobody told": Step(SqliteQueue, "_transact", before=False),
    "asked, not recorded": Step(AppendingPipeline, "process_item", before=True),
    "recorded, lease not finished": Step(AppendingPipeline, "process_item", before=False),
}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        kill_at(STEPS[sys.argv[2]], passes=int(sys.argv[3]))
    crawl_stubs.main()
