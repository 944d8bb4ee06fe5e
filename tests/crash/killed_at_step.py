"""`scrapy`, which is killed at one step of what a harvest writes down.

Its arguments are the name of the step, how many times the step passes before the kill, and those of
`scrapy`. It runs the program's own code and adds nothing but the kill, before or after a call.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Any, Final

from scrapy.cmdline import execute

from tests.crash.steps import Step, kill_at
from tileharvest.harvest import harvest
from tileharvest.history import harvests
from tileharvest.history.database import History
from tileharvest.history.harvests import HarvestRecord
from tileharvest.importers.repository import Repository
from tileharvest.store.files import FileStore


def _in_store(file: str, *_: Any) -> bool:
    """Returns whether the file belongs to the store. Other files are renamed, too."""
    return "tiles" in Path(file).parts


def _in_writer(*_: Any, **__: Any) -> bool:
    """Returns whether the thread that records results makes the call. Others write to the history, too."""
    return threading.current_thread().name.startswith("history-writer")


STEPS: Final = {
    "the harvest has begun": Step(harvest, "begin", before=False),
    "bytes not written": Step(FileStore, "put", before=True),
    "bytes flushed, without their name": Step(os, "replace", before=True, is_meant=_in_store),
    "bytes have their name, folder not flushed": Step(os, "replace", before=False, is_meant=_in_store),
    "bytes stored, row not written": Step(FileStore, "put", before=False),
    "rows not written": Step(History, "write", before=True, is_meant=_in_writer),
    "rows written, not committed": Step(harvests, "record", before=False),
    "rows committed, nobody told": Step(History, "write", before=False, is_meant=_in_writer),
    "all recorded, harvest not ended": Step(HarvestRecord, "finish", before=True),
    "harvest ended and gone tiles recorded, not committed": Step(harvests, "end_harvest", before=False),
    "harvest ended, nobody told": Step(HarvestRecord, "finish", before=False),
}

GIT_STEPS: Final = {
    "the commit's trees fetched": Step(Repository, "fetch", before=False),
    "changed files not fetched": Step(Repository, "_fetch", before=True),
    "changed files fetched": Step(Repository, "_fetch", before=False),
}
"""The steps that only a harvest through git has."""

if __name__ == "__main__":
    kill_at((STEPS | GIT_STEPS)[sys.argv[1]], passes=int(sys.argv[2]))
    execute(["scrapy", *sys.argv[3:]])
