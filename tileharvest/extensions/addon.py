"""The add-on `tileharvest.TileHarvest`: another project's settings gain what this project's settings have."""

from __future__ import annotations

from scrapy.settings import BaseSettings, default_settings

from tileharvest.extensions.prometheus import Prometheus
from tileharvest.queue.settings import REDIS_SETTINGS


class TileHarvest:
    """Brings scheduler, spiders of tiles, commands and defaults to any project.

    Whatever the project sets itself goes before. Scrapy calls the methods, both more than once in a process.
    """

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Adds what is found before there is a crawl: spiders and commands.

        Scrapy 2.19 has looked for the commands before it calls this. So they are those of the program
        `tileharvest`, which calls it earlier; `scrapy` has them where the project names COMMANDS_MODULE.
        """
        ours = _ours()
        for module in ours.getlist("SPIDER_MODULES"):
            if module not in settings.getlist("SPIDER_MODULES"):
                settings.add_to_list("SPIDER_MODULES", module)
        if not settings["COMMANDS_MODULE"]:
            settings.set("COMMANDS_MODULE", ours["COMMANDS_MODULE"], priority="addon")

    def update_settings(self, settings: BaseSettings) -> None:
        """Adds the scheduler, the numbers for Prometheus, and a default for each setting of ours but
        the addresses of Redis."""
        for name, value in _ours().items():
            # The other settings of Scrapy's stay as the project has them. That a computer's environment names
            # a Redis does not say that this project's requests belong there.
            if name == "SCHEDULER" or not (hasattr(default_settings, name) or name in REDIS_SETTINGS):
                settings.set(name, value, priority="addon")
        settings.setdefault_in_component_priority_dict("EXTENSIONS", Prometheus, 500)


def _ours() -> BaseSettings:
    """Returns the settings of this project. They read the environment when they are first asked for."""
    found = BaseSettings()
    found.setmodule("tileharvest.settings")
    return found
