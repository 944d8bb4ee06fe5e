"""What the spiders of tiles have of Scrapy, and what a project may say to it."""

from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.settings import Settings

from tileharvest.spiders.site_probe import SiteProbeSpider
from tileharvest.spiders.tiles import SPIDERS

USUAL_SPIDER = SPIDERS["overviewer"]
DIFF = "tileharvest.middlewares.diff.DiffMiddleware"


@pytest.fixture
def settings() -> Settings:
    """Those of our project."""
    found = Settings()
    found.setmodule("tileharvest.settings")
    return found


def suited(settings: Settings, spider: type[Spider] = USUAL_SPIDER, **of_project: Any) -> Settings:
    for name, value in of_project.items():
        settings.set(name, value, priority="project")
    spider.update_settings(settings)
    return settings


@pytest.mark.parametrize("spider", [USUAL_SPIDER, SiteProbeSpider])
def test_the_spiders_of_tiles_have_what_tiles_need(settings: Settings, spider: type[Spider]) -> None:
    found = suited(settings, spider)
    assert found["DOWNLOADER_MIDDLEWARES"][DIFF] == 540
    assert found["DOWNLOAD_HANDLERS"]["https"] == "tileharvest.spiders.download.TileDownloadHandler"
    assert "c" in found.getlist("DEDUP_IGNORE_QUERY")
    assert found["REQUEST_FINGERPRINTER_CLASS"] == "tileharvest.spiders.blocks.BlockFingerprinter"
    doors = ("COOKIES_ENABLED", "REDIRECT_ENABLED", "TELNETCONSOLE_ENABLED", "REMOTE_CONTROL_ENABLED")
    assert not any(map(found.getbool, doors))


def test_other_spiders_of_the_project_have_scrapys_own_ways(settings: Settings) -> None:
    defaults = Settings()
    for name in (
        "DOWNLOADER_MIDDLEWARES",
        "DOWNLOAD_HANDLERS",
        "ITEM_PIPELINES",
        "REQUEST_FINGERPRINTER_CLASS",
        "DEDUP_IGNORE_QUERY",
        "COOKIES_ENABLED",
        "CONCURRENT_ITEMS",
        "DEFAULT_REQUEST_HEADERS",
        "RETRY_TIMES",
    ):
        assert settings[name] == defaults[name], name


def test_a_projects_own_components_come_to_those_of_tiles_and_go_before(settings: Settings) -> None:
    own = {"DOWNLOADER_MIDDLEWARES": {"a.project.Middleware": 5, DIFF: 545}}
    middlewares = suited(settings, **own)["DOWNLOADER_MIDDLEWARES"]
    assert (middlewares["a.project.Middleware"], middlewares[DIFF]) == (5, 545)


def test_components_of_the_command_line_come_to_those_of_tiles_in_a_crawler_that_is_handed_over() -> None:
    """A runner sets its settings again in a crawler that it has not made."""
    settings = Settings()
    settings.setmodule("tileharvest.settings")
    settings.setdict({"DOWNLOADER_MIDDLEWARES": '{"a.project.Middleware": 5}'}, priority="cmdline")
    crawler = Crawler(USUAL_SPIDER, settings)
    AsyncCrawlerRunner(settings).create_crawler(crawler)
    middlewares = crawler.settings["DOWNLOADER_MIDDLEWARES"]
    assert (middlewares["a.project.Middleware"], middlewares[DIFF]) == (5, 540)
