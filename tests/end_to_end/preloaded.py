"""What the server that forks programs does once, besides loading modules, so that no program has to.

Scrapy asks of each class in the modules of commands whether it is a command, and for a crawl looks through
the modules of spiders twice. That is a third of what a short command costs. It also reads the metadata of all
packages that are installed, for commands that they may have.

The statements of a harvest take a fifth of a short crawl to compile, and the types of maps.toml a tenth.
"""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scrapy import cmdline, spiderloader

from tests.compiled import share_statements
from tests.history.making import TileResult
from tests.middlewares.making import ALL, LATER, LAYER, added, remember
from tileharvest.harvest.holdings import close_histories
from tileharvest.maps.maps_file import load_hosts, load_maps
from tileharvest.tiles.outcomes import Outcome


def _listed(find: Callable[[str], Iterable[Any]]) -> Callable[[str], Iterable[Any]]:
    """Returns a function that remembers what `find` yields for a module of which all is loaded."""
    return cache(lambda name: tuple(find(name)))


def _read_maps(folder: Path) -> None:
    """Reads a map, and a host's entry."""
    file = folder / "maps.toml"
    file.write_text('[hosts."a.example"]\nrequests_per_second = 1\n[small]\nurl = "https://a.example/"\n')
    load_maps(file)
    load_hosts(file)


async def _harvest_twice(folder: Path) -> None:
    """Harvests a small map, and again when nothing has changed."""
    await remember(folder, *map(added, ALL))
    unchanged = (TileResult(LAYER, tile, Outcome.IGNORED) for tile in ALL)
    await remember(folder, *unchanged, day=LATER)


def _compile() -> None:
    """Compiles the statements of a harvest, and reads a map's types."""
    with TemporaryDirectory() as folder:
        _read_maps(Path(folder))
        asyncio.run(_harvest_twice(Path(folder)))
        close_histories()
    assert threading.active_count() == 1, "a thread would be missing in what is forked"


cmdline._iter_command_classes = _listed(cmdline._iter_command_classes)
for _package in ("scrapy.commands", "tileharvest.commands"):
    cmdline._iter_command_classes(_package)

cmdline.entry_points = cache(cmdline.entry_points)
cmdline.entry_points(group="scrapy.commands")
spiderloader.walk_modules_iter = _listed(spiderloader.walk_modules_iter)
spiderloader.walk_modules_iter("tileharvest.spiders")
share_statements()
_compile()

# What was loaded stays, so no program looks through it for garbage, which would copy all of it, too.
gc.collect()
gc.freeze()
