"""What another project's settings gain by the add-on."""

import os
import subprocess
import sys

from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from tileharvest.extensions.addon import TileHarvest


def test_scrapy_finds_it_by_its_short_name() -> None:
    assert load_object("tileharvest.TileHarvest") is TileHarvest


def test_the_package_itself_loads_nothing() -> None:
    code = "import sys, tileharvest; sys.exit(not {'scrapy', 'twisted'}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_redis_of_the_environment_alone_is_not_the_projects() -> None:
    code = (
        "from scrapy.settings import Settings; from tileharvest import TileHarvest;"
        "from tileharvest.queue.settings import queue_kind; settings = Settings();"
        "TileHarvest().update_settings(settings); print(queue_kind(settings))"
    )
    environment = {**os.environ, "REDIS_URL": "redis://redis.example.net"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout == "sqlite\n"


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
