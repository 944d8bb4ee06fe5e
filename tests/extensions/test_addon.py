"""What another project's settings gain by the add-on."""

import subprocess
import sys

from scrapy.settings import Settings

from tileharvest.extensions.addon import TileHarvest


def test_the_package_itself_loads_nothing() -> None:
    code = "import sys, tileharvest; sys.exit(not {'scrapy', 'twisted'}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_scrapys_other_settings_stay_as_they_are() -> None:
    settings, before = Settings(), Settings()
    TileHarvest().update_settings(settings)
    changed = {name for name in before if settings[name] != before[name]}
    assert changed == {"SCHEDULER", "EXTENSIONS", "SPIDER_MIDDLEWARES"}


def test_spiders_and_commands_come_to_those_of_the_project() -> None:
    settings = Settings({"SPIDER_MODULES": ["theirs.spiders"]})
    for _ in range(2):
        TileHarvest.update_pre_crawler_settings(settings)
    assert settings["SPIDER_MODULES"] == ["theirs.spiders", "tileharvest.spiders"]
    assert settings["COMMANDS_MODULE"] == "tileharvest.commands"
