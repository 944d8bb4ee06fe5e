"""A program for test_write_order: `scrapy`, killed at one step of the write order.

Arguments: the step's number, how many times it is let pass first, and those of `scrapy`. What it runs is
the program's own code; only the kill is added, before or after a call.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.cmdline import execute

from tileharvest.harvest import harvest
from tileharvest.history.database import History
from tileharvest.history.harvest_row import HarvestRow
from tileharvest.history.harvests import HarvestRecord
from tileharvest.history.recorder import Recorder
from tileharvest.store.files import FileStore

if TYPE_CHECKING:
    from collections.abc import Callable


class Step(NamedTuple):
    name: str
    owner: Any
    function: str
    before: bool
    """Killed before the call, else after it."""


STEPS = (
    Step("the harvest has begun", harvest, "begin", before=False),
    Step("bytes not written", FileStore, "put", before=True),
    Step("bytes flushed, without their name", Path, "replace", before=True),
    Step("bytes have their name, folder not flushed", Path, "replace", before=False),
    Step("bytes stored, row not written", FileStore, "put", before=False),
    Step("rows not written", History, "write", before=True),
    Step("rows written, not committed", Recorder, "record", before=False),
    Step("rows committed, nobody told", History, "write", before=False),
    Step("all recorded, harvest not ended", HarvestRecord, "finish", before=True),
    Step("harvest ended and gone tiles recorded, not committed", HarvestRow, "end", before=False),
    Step("harvest ended, nobody told", HarvestRecord, "finish", before=False),
)


def kill_at(step: Step, passes: int) -> None:
    """Let the call after `passes` others be the last thing that this process does."""
    original: Callable[..., Any] = getattr(step.owner, step.function)
    calls = count()

    def killing(*arguments: Any, **keywords: Any) -> Any:
        # Files are renamed elsewhere too; meant are those of the store. Of what is written to the history,
        # the results are meant.
        in_writer = threading.current_thread().name.startswith("history-writer")
        meant = {Path: lambda: "tiles" in arguments[0].parts, History: lambda: in_writer}
        is_meant = meant.get(step.owner, lambda: True)()
        last = is_meant and next(calls) == passes
        if last and step.before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **keywords)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(step.owner, step.function, killing)


if __name__ == "__main__":
    kill_at(STEPS[int(sys.argv[1])], passes=int(sys.argv[2]))
    execute(["scrapy", *sys.argv[3:]])
