"""The program `tileharvest`, which has all commands in any folder."""

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
    """Runs the command of the command line, and ends the process with its exit status.

    `scrapy` itself has our commands only within a project that names them. This program always has them. In
    the folder of a Scrapy project, and below it, the settings of that project count, as if they named the
    add-on. Elsewhere our own settings count.
    """
    init_env(os.environ.get("SCRAPY_PROJECT", "default"))
    is_ours = os.environ.setdefault(ENVVAR, _OURS) == _OURS
    settings = get_project_settings()
    if "EDITOR" in os.environ:
        # Scrapy does this only if it reads the settings itself.
        settings["EDITOR"] = os.environ["EDITOR"]
    if is_ours and not closest_scrapy_cfg():
        # `genspider` writes a new spider into the present folder, not among the installed files.
        settings["NEWSPIDER_MODULE"] = ""
    if not is_ours:
        settings.setdefault_in_component_priority_dict("ADDONS", TileHarvest, 300)
        settings.set("COMMANDS_MODULE", "tileharvest.commands", priority="cmdline")
        TileHarvest.update_pre_crawler_settings(settings)
    execute(sys.argv, settings)
