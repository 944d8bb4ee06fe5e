"""Commands that need no crawler, run in the process of the tests. One of their own costs half a second."""

import io
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from typing import Final
from unittest.mock import patch

from scrapy.settings import Settings

from tileharvest import settings as ours
from tileharvest.commands.program import run

_WORDS: Final = (
    "archive areas check-store diff failures film harvests history import maps mosaic pause publish push"
    " queue rate restore resume stop version workers"
)
WITHOUT_CRAWLER: Final = frozenset(_WORDS.split())
_FROM_ENVIRONMENT: Final = [
    "TILEHARVEST_MAPS",
    "TILEHARVEST_DATA",
    "DATABASE_URL",
    "TILE_STORE",
    "REDIS_URL",
    "REDIS_HOST",
    "REDIS_PORT",
]
"""What `tileharvest/settings.py` has read when it was loaded."""


def run_here(program: str, words: tuple[str, ...], environment: Mapping[str, str]) -> CompletedProcess[str]:
    """Runs `PROGRAM WORD...` with this environment. Must be called in the main thread."""
    settings = Settings()
    settings.setmodule(ours)
    for name in _FROM_ENVIRONMENT:
        settings.set(name, environment.get(name, ""), priority="project")
    out, err, status = io.StringIO(), io.StringIO(), 0
    with patch.object(sys, "argv", [program, *words]), redirect_stdout(out), redirect_stderr(err):
        try:
            run([program, *words], settings)
        except SystemExit as ended:
            status = int(ended.code or 0)
    return CompletedProcess([program, *words], status, out.getvalue(), err.getvalue())
