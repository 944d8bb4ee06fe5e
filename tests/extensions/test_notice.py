"""When a notice is sent, and for how long it holds up the end of a harvest."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import Settings

from tests.notices.receiver import Receiver, receiver
from tileharvest.errors import AlreadyHarvestedError, SiteError, TileHarvestError
from tileharvest.extensions.notice import Notice
from tileharvest.harvest.settings import harvest_for
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.tiles.outcomes import Outcome

# Apprise loads a module that Python 3.13 has no more, where there is one.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest.fixture
def received() -> Iterator[Receiver]:
    with receiver() as listening:
        yield listening


@pytest.fixture
def notice(tmp_path: Path, received: Receiver) -> Callable[..., Notice]:
    """The extension of a harvest that ended so."""
    maps = tmp_path / "maps.toml"
    maps.write_text(
        f'[small]\nurl = "http://127.0.0.1:9/"\non = ["always"]\nnotify = ["{received.address()}"]\n'
    )
    settings = Settings({"TILEHARVEST_MAPS": str(maps), "TILEHARVEST_DATA": str(tmp_path / "data")})
    settings.setmodule("tileharvest.settings", priority="default")

    def make(
        *,
        is_finished: bool = True,
        ending: TileHarvestError | None = None,
        ended_here: bool = True,
        wrong: dict[str, Any] | None = None,
        **arguments: str,
    ) -> Notice:
        crawl = crawl_of(Crawler(Spider, settings))
        crawl.arguments, crawl.counts = arguments, {Outcome.ADDED: 3}
        crawl.is_finished, crawl.ending = is_finished, ending
        crawl.harvest = harvest_for(settings, {"map": "small"})
        crawl.harvest.ended_here = ended_here
        crawl.harvest.description = replace(crawl.harvest.description, **(wrong or {}))
        return Notice.from_crawler(crawl.crawler)

    return make


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({}, ["3 tiles changed"]),
        ({"is_finished": False, "ending": SiteError("gone")}, ["the harvest failed, 3 tiles changed"]),
        ({"ended_here": False}, []),
        ({"is_finished": False}, []),
        ({"is_finished": False, "ending": AlreadyHarvestedError("done")}, []),
    ],
    ids=["finished", "failed", "ended by another worker", "stopped", "harvested already"],
)
def test_a_harvest_that_has_ended_here_is_told_of(
    notice: Callable[..., Notice], received: Receiver, attributes: dict[str, Any], told: list[str]
) -> None:
    asyncio.run(notice(**attributes)._notify())
    assert [posted.title.partition(": ")[2] for posted in received.posted] == told


def test_nobody_is_told_of_a_dry_run(notice: Callable[..., Notice]) -> None:
    with pytest.raises(NotConfigured):
        notice(dry="1")


def test_without_apprise_one_line_says_how_to_install_it(
    notice: Callable[..., Notice], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tileharvest.notices.delivery.find_spec", lambda _name: None)
    asyncio.run(notice()._notify())
    assert caplog.messages == ["notices need Apprise: pip install '.[notify]'; this goes on without"]
