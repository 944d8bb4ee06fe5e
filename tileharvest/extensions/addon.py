"""The add-on `tileharvest.TileHarvest`, by which another project gains what this one has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.extensions.prometheus import Prometheus

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_SPIDERS = "tileharvest.spiders"


class TileHarvest:
    """Brings scheduler, spiders of tiles and commands to any project.

    Whatever the project sets itself goes before. Our own settings need no defaults here, because each room
    that reads one takes that of `tileharvest/settings.py` where the project has none. Scrapy calls the
    methods, both more than once in a process.
    """

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Adds what Scrapy looks for before there is a crawl: spiders and commands.

        Scrapy 2.19 has looked for the commands before it calls this. So they are those of the program
        `tileharvest`, which calls it earlier; `scrapy` has them where the project names COMMANDS_MODULE.
        """
        if _SPIDERS not in settings.getlist("SPIDER_MODULES"):
            settings.add_to_list("SPIDER_MODULES", _SPIDERS)
        if not settings["COMMANDS_MODULE"]:
            settings.set("COMMANDS_MODULE", "tileharvest.commands", priority="addon")

    def update_settings(self, settings: BaseSettings) -> None:
        """Adds the scheduler, and the numbers for Prometheus."""
        settings.set("SCHEDULER", "tileharvest.scheduler.Scheduler", priority="addon")
        settings.setdefault_in_component_priority_dict("EXTENSIONS", Prometheus, 500)
