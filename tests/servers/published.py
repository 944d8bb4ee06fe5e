"""The shared real maps as folders that web servers serve, and the known changes between their versions."""

import runpy
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """The changes from one version of a map to the next, as paths of files below the published folder."""

    day: date
    """The day of the later version."""
    added: frozenset[str]
    removed: frozenset[str]
    changed: frozenset[str]
    """Files that got other bytes."""
    redated: frozenset[str]
    """Files that kept their bytes and got another modification time."""


def published(shared_maps: Path, name: str, version: int, folder: Path) -> Path:
    """Makes `folder` hold exactly this version of the map (1 is the oldest), and returns the folder.

    Files have the modification times that the renderer gave them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _program(shared_maps)["publish"](name, version, folder, deploy=False)
    return folder


def truth(shared_maps: Path, name: str) -> list[Step]:
    """Returns the changes of each version after the first one, in order. They begin with version 2."""
    return [
        Step(
            day=date.fromisoformat(step["day"]),
            added=frozenset(step["added"]),
            removed=frozenset(step["removed"]),
            changed=frozenset(step["changed"]),
            redated=frozenset(step["redated"]),
        )
        for step in _program(shared_maps)["truth"](name)
    ]


@cache
def _program(shared_maps: Path) -> dict[str, Any]:
    """Returns what the maps' own program defines. To start it would cost more than what it does."""
    return runpy.run_path(str(shared_maps / "publish.py"))
