"""A program for test_scheduler_kill: a crawl by a stub spider, which is killed at one step of an exchange.

Its arguments are the file of runs and the name of the step. Without a step it does the same as `crawl_stubs`.
"""

import sys
from typing import Any, Final

from tests.crash.steps import Step, kill_at
from tests.scheduler import crawl_stubs
from tests.scheduler.stub_spiders import AppendingPipeline
from tileharvest.queue.port import End
from tileharvest.queue.sqlite.queue import SqliteQueue

_ends: Final[list[End]] = []
"""The leases that have ended."""


def _end(queue: SqliteQueue, end: End, now: float, original: Any = SqliteQueue._end) -> None:
    _ends.append(end)
    original(queue, end, now)


def _has_ended(*_: Any) -> bool:
    return bool(_ends)


STEPS: Final = {
    "nothing exchanged": (Step(SqliteQueue, "exchange", before=True), 4),
    "pushed, not finished": (Step(SqliteQueue, "_end", before=True), 4),
    "leased, not committed": (Step(SqliteQueue, "_lease", before=False), 4),
    "committed, nobody told": (Step(SqliteQueue, "_transact", before=False), 4),
    "the first lease has ended": (Step(SqliteQueue, "_transact", before=False, is_meant=_has_ended), 0),
    "asked, not recorded": (Step(AppendingPipeline, "process_item", before=True), 4),
    "recorded, lease not finished": (Step(AppendingPipeline, "process_item", before=False), 4),
}
"""Each step, and how many times it passes before the kill."""


if __name__ == "__main__":
    SqliteQueue._end = _end  # type: ignore[method-assign]
    if len(sys.argv) > 2:
        kill_at(*STEPS[sys.argv[2]])
    crawl_stubs.main()
