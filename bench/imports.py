"""An import of a git repository: a first commit of a whole map, and many that change a few tiles."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bench.cost import Cost, cores, on_core, run
from bench.harvest import PROJECT
from bench.site import count, depth_for, generate
from tests.servers.repositories import FastImport

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

COMMITS: Final = 2000
TILES: Final = 5000
_CHANGED: Final = 5
"""Tiles that each commit changes."""
_LEAST: Final = 0.1
"""Seconds besides start-up below which nothing is told: start-up alone takes as much more or less."""
_START: Final = datetime(2018, 1, 1, 12, tzinfo=UTC)


def measure(folder: Path, console: Console, commits: int, tiles: int) -> dict[str, Any]:
    """Measures an import of so many commits, one a day, after the import of the first one; and once more,
    when there is nothing new."""
    depth = depth_for(tiles)
    site = folder / "import-site"
    generate(site, depth)
    repository = FastImport(folder / "import.git")
    files = {
        path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()
    }
    repository.commit(_START, files)
    repository.written()
    (folder / "import.toml").write_text('[bench]\nurl = "https://map.example.net/"\n', encoding="utf-8")
    first = _import(folder, repository.folder)
    images = [path for path in files if path.count("/") > 1]
    for number in range(1, commits):
        changed = (images[(number * _CHANGED + one) % len(images)] for one in range(_CHANGED))
        # Bytes behind an image's end change its sha1, and what it shows stays.
        repository.commit(
            _START + timedelta(days=number), {path: files[path] + b"%8d" % number for path in changed}
        )
    repository.written()
    later, again = _import(folder, repository.folder), _import(folder, repository.folder)
    rows = {
        "the first commit": (1, count(depth), first.without(again)),
        "later commits": (commits - 1, (commits - 1) * _CHANGED, later.without(again)),
        "nothing new": (0, 0, again),
    }
    table = Table("import", "commits", "tiles", "by", "seconds", "commits/s", "tiles/s", title="Git imports")
    for what, (days, changes, cost) in rows.items():
        for by, seconds in (("clock", cost.wall), ("CPU", cost.cpu)):
            figures = ["too few"] * 3
            if seconds >= _LEAST:
                figures = [f"{seconds:.1f}", *(f"{number / seconds:,.0f}" for number in (days, changes))]
            table.add_row(what, f"{days:,}", f"{changes:,}", by, *figures)
    console.print(table)
    return {
        what: {"commits": days, "tiles": changes, **asdict(cost)}
        for what, (days, changes, cost) in rows.items()
    }


def _import(folder: Path, repository: Path) -> Cost:
    command = [sys.executable, "-m", "scrapy", "import", "git", str(repository), "bench"]
    places = {
        "TILEHARVEST_MAPS": str(folder / "import.toml"),
        "TILEHARVEST_DATA": str(folder / "import-data"),
    }
    with on_core(cores()[0]):
        return run(command, folder / "import.log", PROJECT, places)
