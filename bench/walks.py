"""The walks of a daily harvest: full and pruned, by HEAD and by conditional GET, and what each costs.

Every row begins with the same history, that of one full harvest. It finds the site as the second day left it:
a share of the tiles is drawn anew, and with each changed tile all tiles above it. The changed tiles lie
anywhere on the map, where pruning spares least; real changes lie together.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from hashlib import sha1
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.table import Column, Table

from bench.cost import Cost, RunFailedError, run
from bench.dated_site import Traffic, dated_site
from bench.harvest import FIRST_DAY, PROJECT, SECOND_DAY
from bench.site import count, depth_for
from bench.stock import CONCURRENCY
from tileharvest.history.database import History
from tileharvest.history.proofs import proofs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import Console

    from bench.dated_site import DatedSite

LATENCY: Final = 0.03
"""Seconds until each answer."""
SHARES: Final = (0.0, 0.001, 0.01, 0.1, 1.0)
"""The shares of the tiles that have changed."""


class Kind(NamedTuple):
    """A way to harvest."""

    name: str
    entry: str
    """The lines of the map's entry in `maps.toml`."""


KINDS: Final = (
    Kind("full", 'walk = "full"'),
    Kind("pruned", 'walk = "pruned"'),
    Kind("pruned, no audit", 'walk = "pruned"\naudit = 0'),
    Kind("conditional full", 'walk = "full"\ncheck = "conditional"'),
    Kind("conditional pruned", 'walk = "pruned"\ncheck = "conditional"'),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured harvest."""

    kind: str
    share: float
    tiles: int
    changed: int
    """The number of changed tiles. The harvest has found all of them, and no others."""
    asked: Traffic
    cost: Cost
    """The cost of the whole command. Its start, which asks for no tile, and its end are in it."""

    @property
    def requests(self) -> int:
        """The number of requests for tiles."""
        return self.asked.heads + self.asked.gets


class Ground:
    """The folder of one map, and the history of its first harvest, which is full and not measured."""

    def __init__(self, folder: Path, depth: int) -> None:
        """Raises RunFailedError where the first harvest does not prove that the site keeps its times."""
        folder.mkdir()
        self._folder = folder
        self._depth = depth
        with dated_site(depth, LATENCY, changed=0) as site:
            self._harvest("first", site.near_url, KINDS[0], FIRST_DAY)
        with History.open_read_only(_address(folder / "first")) as history:
            proved = list(proofs(history, "bench")["bench"].values())
        if not (proved and all(proof.holds for proof in proved)):
            raise RunFailedError(f"the site's times prove nothing: {[proof.in_words for proof in proved]}")

    def rows(self, share: float) -> Iterator[Row]:
        """Yields a row for each kind. The site is the same for all of them."""
        with dated_site(self._depth, LATENCY, changed=round(share * count(self._depth))) as site:
            for kind in KINDS:
                yield self._row(site, kind, share)

    def _row(self, site: DatedSite, kind: Kind, share: float) -> Row:
        data = self._folder / "second"
        shutil.copytree(self._folder / "first", data, copy_function=_copy)
        site.asked()
        cost = self._harvest("second", site.url, kind, SECOND_DAY)
        asked = site.asked()
        _check_found(data, site, kind)
        shutil.rmtree(data)
        return Row(kind.name, share, site.tiles, len(site.changed), asked, cost)

    def _harvest(self, name: str, url: str, kind: Kind, day: str) -> Cost:
        maps = self._folder / "maps.toml"
        entry = f'[bench]\nurl = "{url}/"\nconcurrency = {CONCURRENCY}\ntimezone = "UTC"\n{kind.entry}\n'
        maps.write_text(entry, encoding="utf-8")
        arguments = ("crawl", "overviewer", "-a", "map=bench", "-a", f"day={day}")
        environment = {"TILEHARVEST_MAPS": str(maps), "TILEHARVEST_DATA": str(self._folder / name)}
        command = [sys.executable, "-m", "scrapy", *arguments]
        return run(command, self._folder / f"{name}.log", PROJECT, environment)


def _copy(source: str, target: str) -> None:
    """Copies a file. An image becomes a hard link, which is many times faster.

    That is safe, because a store never writes into a file that it has.
    """
    if source.endswith(".png"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _check_found(data: Path, site: DatedSite, kind: Kind) -> None:
    """Raises RunFailedError unless the images of the day are those that the site has drawn anew.

    It reads the tables of the history itself, without the program's code.
    """
    with closing(sqlite3.connect(data / "history.sqlite")) as history:
        (end,) = history.execute("SELECT reason FROM harvests WHERE day = ?", (SECOND_DAY,)).fetchone()
        found = history.execute("SELECT sha1 FROM versions WHERE day = ?", (SECOND_DAY,)).fetchall()
    wanted = sorted(sha1(image, usedforsecurity=False).hexdigest() for image in site.changed)
    if sorted(name for (name,) in found) != wanted:
        raise RunFailedError(
            f"{kind.name}: {len(found)} tiles found changed, {len(wanted)} had, or others; its end: {end}"
        )


def _address(data: Path) -> str:
    return f"sqlite:///{data / 'history.sqlite'}"


def measure(folder: Path, console: Console, tiles: int, shares: Sequence[float] = SHARES) -> dict[str, Any]:
    """Measures all rows, and prints a table for each share.

    The map has at least so many tiles. Raises RunFailedError where a harvest has missed a change.
    """
    ground, rows = Ground(folder / "walks", depth_for(tiles)), list[Row]()
    for share in shares:
        found = list(ground.rows(share))
        console.print(_table(found))
        rows += found
    return {"runs": [asdict(row) | {"requests": row.requests} for row in rows]}


def _table(rows: Sequence[Row]) -> Table:
    """Returns the table of one share. It fits into the 80 columns of a console that is no terminal."""
    asking = f"{LATENCY * 1000:.0f} ms, {CONCURRENCY} at a time"
    title = f"{rows[0].changed:,} of {rows[0].tiles:,} tiles changed; {asking}"
    columns = ("asked", "HEAD", "GET", "304", "kB", "s", "CPU s")
    table = Table(Column("harvest", no_wrap=True), *columns, title=title, pad_edge=False)
    for row in rows:
        asked = row.asked
        numbers = (row.requests, asked.heads, asked.gets, asked.not_modified, asked.bytes // 1000)
        costs = (f"{row.cost.wall:.1f}", f"{row.cost.cpu:.1f}")
        table.add_row(row.kind, *(f"{number:,}" for number in numbers), *costs)
    return table
