"""The program `tileharvest`: every command, from any folder."""

from __future__ import annotations

import os
import sys
from typing import Final

from scrapy.cmdline import execute
from scrapy.utils.conf import closest_scrapy_cfg, init_env
from scrapy.utils.project import ENVVAR, get_project_settings

from tileharvest.extensions.addon import TileHarvest

_OURS: Final = "tileharvest.settings"


def main() -> None:
    """Runs the command that the command line names, and ends the process with its exit status.

    `scrapy` itself has our commands only within a project that names them. This program brings them along. In
    the folder of a Scrapy project, and below it, that project's settings hold, as if they named the add-on;
    elsewhere our own do.
    """
    init_env(os.environ.get("SCRAPY_PROJECT", "default"))
    is_ours = os.environ.setdefault(ENVVAR, _OURS) == _OURS
    settings = get_project_settings()
    if "EDITOR" in os.environ:
        # Scrapy does this only where it reads the settings itself.
        settings["EDITOR"] = os.environ["EDITOR"]
    if is_ours and not closest_scrapy_cfg():
        # A new spider is written into the present folder, not among the installed files.
        settings["NEWSPIDER_MODULE"] = ""
    if not is_ours:
        settings.setdefault_in_component_priority_dict("ADDONS", TileHarvest, 300)
        settings.set("COMMANDS_MODULE", "tileharvest.commands", priority="cmdline")
        TileHarvest.update_pre_crawler_settings(settings)
    execute(sys.argv, settings)
