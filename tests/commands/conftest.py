"""Commands that need no crawler, on a map's files in the test's own folder."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.commands.running import run_here

Tileharvest = Callable[..., "Said"]


class Said(NamedTuple):
    """What a command has written, and its exit status."""

    status: int
    out: str
    err: str


@pytest.fixture
def tileharvest(tmp_path: Path) -> Tileharvest:
    """Runs `tileharvest WORD...` on the `maps.toml` and the folder `data` of `tmp_path`."""
    places = {"TILEHARVEST_MAPS": str(tmp_path / "maps.toml"), "TILEHARVEST_DATA": str(tmp_path / "data")}

    def command(*words: str) -> Said:
        done = run_here("tileharvest", words, places)
        return Said(done.returncode, done.stdout, done.stderr)

    return command
