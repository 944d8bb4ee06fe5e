"""The same tiles asked by programs that only ask: `wget -N`, one by one, and `curl --parallel`.

Both are given a list of addresses. They keep no history, look nothing up and make no walk.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from bench.cost import RunFailedError, run
from bench.harvest import check
from bench.site import count, tile_paths
from bench.stock import CONCURRENCY

if TYPE_CHECKING:
    from pathlib import Path

    from bench.cost import Cost
    from tests.servers.nginx import Nginx

PROGRAMS: Final = ("wget -N", "curl --parallel")


def ask(program: str, server: Nginx, depth: int, folder: Path) -> Cost | None:
    """Asks for every tile of an unchanged map. Returns None where this computer has no such program.

    `folder` must not exist. Wget is given a copy of the tiles first, with their times, as an earlier run
    would have left it; it asks for each tile that is newer than its copy.
    """
    name = program.partition(" ")[0]
    if shutil.which(name) is None:
        return None
    folder.mkdir()
    addresses = [f"{server.url}/{path}" for path in tile_paths(depth)]
    if name == "wget":
        given = folder / "addresses"
        given.write_text("\n".join(addresses), encoding="utf-8")
        command = ["wget", "-q", "-N", "-x", "-nH", "-i", str(given)]
        # The first time, which fetches them, is not measured.
        run(command, folder / "first.log", folder, {})
        server.clear_log()
        cost = run(command, folder / "output.log", folder, {})
        _check_asked(server, depth)
        return cost
    given = folder / "config"
    lines = ["silent", "head", "parallel", f"parallel-max = {CONCURRENCY}"]
    lines += [f'url = "{address}"\noutput = "/dev/null"' for address in addresses]
    given.write_text("\n".join(lines), encoding="utf-8")
    server.clear_log()
    cost = run(["curl", "-q", "-K", str(given)], folder / "output.log", folder, {})
    check(server, {"HEAD": count(depth)})
    return cost


def _check_asked(server: Nginx, depth: int) -> None:
    """Raises RunFailedError unless each tile was asked for once, and none was sent."""
    asked = [line for line in server.log() if line.path.endswith(".png")]
    sent = sum(line.status == 200 and line.method == "GET" for line in asked)
    if len({line.path for line in asked}) != len(asked) or (len(asked), sent) != (count(depth), 0):
        raise RunFailedError(f"wget asked {len(asked)} times for {count(depth)} tiles, and was sent {sent}")
