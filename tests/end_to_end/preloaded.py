"""What the server that forks programs does once, besides loading modules, so that no program has to.

Scrapy asks of each class in the modules of commands whether it is a command. Python's abstract classes take
long to find an answer, which is a fifth of what a short command costs, and remember it. It also reads the
metadata of all packages that are installed, for commands that they may have.

It copies its settings for each crawl, and Python's way to copy any object takes a tenth of a short crawl. The
statements of a harvest take a fifth to compile.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scrapy import cmdline
from scrapy.commands import ScrapyCommand
from scrapy.settings import SettingsAttribute
from scrapy.utils.misc import walk_modules_iter

from tests.compiled import share_statements
from tests.middlewares.making import ALL, LATER, LAYER, added, remember
from tileharvest.history.change_indexes import stored_indexes
from tileharvest.history.database import History
from tileharvest.history.proofs import last_full, proofs
from tileharvest.history.recorded_versions import tile_versions
from tileharvest.history.summaries import harvest_summaries, last_costs, map_summaries
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import TileResult


def _copied(attribute: SettingsAttribute, memo: dict[int, Any]) -> SettingsAttribute:
    """Returns what `deepcopy` makes of it by itself."""
    copy = SettingsAttribute.__new__(SettingsAttribute)
    copy.value, copy.priority = deepcopy(attribute.value, memo), attribute.priority
    return copy


async def _harvest_twice(folder: Path) -> None:
    """Harvests a small map, and again when nothing has changed."""
    await remember(folder, *map(added, ALL))
    unchanged = (TileResult(LAYER, tile, Outcome.IGNORED) for tile in ALL)
    await remember(folder, *unchanged, day=LATER)


def _compile() -> None:
    """Compiles the statements of a harvest, and of the commands that most tests run."""
    with TemporaryDirectory() as folder:
        asyncio.run(_harvest_twice(Path(folder)))
        with History.open_read_only(f"sqlite:///{folder}/history.sqlite") as history:
            map_summaries(history)
            harvest_summaries(history, "small")
            last_costs(history)
            tile_versions(history, "small")
            for look in (proofs, last_full, stored_indexes):
                look(history)
    assert threading.active_count() == 1, "a thread would be missing in what is forked"


for _package in ("scrapy.commands", "tileharvest.commands"):
    for _module in walk_modules_iter(_package):
        for _, _class in inspect.getmembers(_module, inspect.isclass):
            issubclass(_class, ScrapyCommand)

cmdline.entry_points = cache(cmdline.entry_points)
cmdline.entry_points(group="scrapy.commands")
SettingsAttribute.__deepcopy__ = _copied
share_statements()
_compile()

# What was loaded stays, so no program looks through it for garbage, which would copy all of it, too.
gc.collect()
gc.freeze()
