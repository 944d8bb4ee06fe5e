"""Commands that need no crawler, run in this process."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import pytest
from scrapy.settings import Settings

from tileharvest.commands.program import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Tileharvest = Callable[..., "Said"]


class Said(NamedTuple):
    """What a command has written, and its exit status."""

    status: int
    out: str
    err: str


@pytest.fixture
def tileharvest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Tileharvest:
    """Runs `tileharvest WORD...` on the `maps.toml` and the folder `data` of `tmp_path`."""
    monkeypatch.setattr("logging._logRecordFactory", logging.LogRecord)

    def command(*words: str) -> Said:
        settings = Settings()
        settings.setmodule("tileharvest.settings")
        places = {"TILEHARVEST_MAPS": tmp_path / "maps.toml", "TILEHARVEST_DATA": tmp_path / "data"}
        settings.setdict({name: str(path) for name, path in places.items()}, priority="cmdline")
        with pytest.raises(SystemExit) as ended:
            run(["tileharvest", *words], settings)
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return command
