"""The name of the program, for messages that name a command of it."""

from __future__ import annotations

import sys
from pathlib import Path


def program() -> str:
    """Returns the name by which this program was started: `scrapy`, or else `tileharvest`."""
    path = Path(sys.argv[0])
    # `python -m scrapy` has the path of the package's `__main__.py`.
    return "scrapy" if "scrapy" in (path.name, path.parent.name) else "tileharvest"
