"""The shared real maps, laid out as the folders that web servers serve, and what is known of them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Step:
    """What changed from one version of a map to the next: paths of files below the published folder."""

    day: date
    """Of the later version."""
    added: frozenset[str]
    removed: frozenset[str]
    changed: frozenset[str]
    """Other bytes."""
    redated: frozenset[str]
    """The same bytes with another modification time."""


def published(shared_maps: Path, name: str, version: int, folder: Path, *, deploy: bool = False) -> Path:
    """Make `folder` hold exactly this version (1 is the oldest) of the map, and return it.

    Files have the modification times that the renderer gave them; with `deploy` the present time, as
    hosts set it that upload everything anew.
    """
    _publish(shared_maps, name, str(version), str(folder), *(["--deploy"] if deploy else []))
    return folder


def truth(shared_maps: Path, name: str) -> list[Step]:
    """The changes of each version after the first, in order: the first is version 2."""
    return [
        Step(
            day=date.fromisoformat(step["day"]),
            added=frozenset(step["added"]),
            removed=frozenset(step["removed"]),
            changed=frozenset(step["changed"]),
            redated=frozenset(step["redated"]),
        )
        for step in json.loads(_publish(shared_maps, name, "--truth"))
    ]


def _publish(shared_maps: Path, *arguments: str) -> str:
    command = [sys.executable, str(shared_maps / "publish.py"), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
