"""The program `tileharvest`: every command, from any folder."""

from __future__ import annotations

import os
import sys

from scrapy.cmdline import execute
from scrapy.utils.conf import init_env
from scrapy.utils.project import ENVVAR, get_project_settings


def main() -> None:
    """Runs the command that the command line names, and ends the process with its exit status.

    `scrapy` itself has our commands only within a project that names them. This program brings them along. In
    the folder of a Scrapy project, and below it, that project's settings hold; elsewhere our own do.
    """
    init_env(os.environ.get("SCRAPY_PROJECT", "default"))
    os.environ.setdefault(ENVVAR, "tileharvest.settings")
    settings = get_project_settings()
    if "EDITOR" in os.environ:
        # Scrapy does this only where it reads the settings itself.
        settings["EDITOR"] = os.environ["EDITOR"]
    execute(sys.argv, settings)
