"""The command `make bench`: measures harvests, fleets of workers, the viewer and exports.

    make bench                               all parts
    make bench ARGS="ratio --pairs 1"        harvests beside stock Scrapy, once each
    make bench ARGS="flat --sizes 20000 1000000"
                                             harvests as the map grows
    make bench ARGS="fleet --workers 1 4"    workers that share a queue in Redis
    make bench ARGS="maps --many 250"        many maps side by side in one process
    make bench ARGS="viewer --versions 1000000"
                                             the viewer on a long history, and its page
    make bench ARGS="export --versions 200000"
                                             pictures, films, archive, published page

Tables go to standard error, and one JSON object goes to standard output. Where a figure is worse than its
bound, a line on standard error says so, and the status is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from bench import export, fleet, harvest, maps, viewer
from bench.cost import RunFailedError

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    parser = argparse.ArgumentParser(
        "make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=("all", *_parts), default="all")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each program, for the ratio")
    parser.add_argument("--sizes", type=int, nargs="+", default=harvest.SIZES, help="least tiles of each map")
    parser.add_argument("--tiles", type=int, default=fleet.TILES, help="least tiles of the fleet's map")
    parser.add_argument("--workers", type=int, nargs="+", default=fleet.WORKERS, help="in the fleets")
    parser.add_argument("--many", type=int, default=maps.MAPS, help="busy maps in one process")
    parser.add_argument("--quiet", type=int, default=maps.QUIET, help="quiet maps in one process")
    parser.add_argument("--versions", type=int, default=viewer.VERSIONS, help="in the long history")
    chosen, console = parser.parse_args(), Console(stderr=True)
    found = {}
    for part in _parts if chosen.part == "all" else (chosen.part,):
        with tempfile.TemporaryDirectory(prefix="tileharvest-bench-") as folder:
            try:
                found[part] = _parts[part](Path(folder), console, chosen)
            except RunFailedError as error:
                sys.exit(f"{part}: {error}")
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    if lines := list(harvest.shortfalls(found)):
        sys.exit("\n".join(lines))


_parts: dict[str, Callable[[Path, Console, argparse.Namespace], dict[str, Any]]] = {
    "ratio": lambda folder, console, chosen: harvest.ratio(folder, console, chosen.pairs),
    "flat": lambda folder, console, chosen: harvest.flat(folder, console, chosen.sizes),
    "fleet": lambda folder, console, chosen: fleet.measure(
        folder / "fleet", console, chosen.tiles, chosen.workers
    ),
    "maps": lambda folder, console, chosen: maps.measure(folder, console, chosen.many, chosen.quiet),
    "viewer": lambda folder, console, chosen: viewer.measure(folder / "viewer", console, chosen.versions),
    "export": lambda folder, console, chosen: export.measure(folder / "export", console, chosen.versions),
}


if __name__ == "__main__":
    main()
