"""The add-on `tileharvest.TileHarvest`, which brings this project's parts to another one."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_SPIDERS = "tileharvest.spiders"


class TileHarvest:
    """Adds the scheduler, the spiders of tiles and the commands to any project.

    Settings of the project go first. Our own settings need no defaults here: a room that reads one takes the
    value of `tileharvest/settings.py` if the project has none. Scrapy calls both methods more than once in a
    process.
    """

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Adds the spiders and the commands.

        Scrapy 2.19 looks for commands before it calls this. So only the program `tileharvest`, which calls it
        earlier, gets the commands this way. `scrapy` has them if the project sets COMMANDS_MODULE.
        """
        # Who has installed the scheduler alone has no spiders of maps: they need the extra `maps`.
        if find_spec("pycurl") is not None and _SPIDERS not in settings.getlist("SPIDER_MODULES"):
            settings.add_to_list("SPIDER_MODULES", _SPIDERS)
        if not settings["COMMANDS_MODULE"]:
            settings.set("COMMANDS_MODULE", "tileharvest.commands", priority="addon")

    def update_settings(self, settings: BaseSettings) -> None:
        """Adds the scheduler with its middleware, and the extension for Prometheus."""
        # `tileharvest` loads this module with all commands, and these take long to load.
        from tileharvest.extensions.prometheus import Prometheus  # noqa: PLC0415
        from tileharvest.scheduler import LeaseMiddleware  # noqa: PLC0415

        settings.set("SCHEDULER", "tileharvest.scheduler.Scheduler", priority="addon")
        settings.setdefault_in_component_priority_dict("SPIDER_MIDDLEWARES", LeaseMiddleware, 10)
        settings.setdefault_in_component_priority_dict("EXTENSIONS", Prometheus, 500)
