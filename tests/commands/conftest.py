"""Commands that need no crawler, on a map's files in the test's own folder."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.commands.running import run_here

Tileharvest = Callable[..., CompletedProcess[str]]


@pytest.fixture
def tileharvest(tmp_path: Path) -> Tileharvest:
    """Runs `tileharvest WORD...` on the `maps.toml` and the folder `data` of `tmp_path`."""
    places = {"TILEHARVEST_MAPS": str(tmp_path / "maps.toml"), "TILEHARVEST_DATA": str(tmp_path / "data")}
    return lambda *words: run_here("tileharvest", words, places)
