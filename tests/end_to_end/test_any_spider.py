"""Spiders of a foreign project on Scrapy's scheduler and on ours: the same items, the same requests."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.end_to_end.forking import ROOT, Forked
from tests.end_to_end.project import answered, await_condition
from tests.servers.nginx import Nginx, nginx
from tests.servers.redis import redis_server
from tests.servers.tutorial_sites import SERVER, write_sites

FOREIGN: Final = Path(__file__).parent / "foreign"
# So long a segment that no end of one is between two runs.
OURS: Final = 'ADDONS = {"tileharvest.TileHarvest": 300}\nSEGMENT = "every:1000w"\n'
SPIDERS: Final = ("quotes", "books", "login", "sitemap", "api", "chain", "errors")
ALWAYS: Final = ("api",)
"""What these make is made in each run: POST is only known to the process. The address that begins a crawl is
made once all the same."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A copy of the foreign project, and the site that it crawls."""

    folder: Path
    server: Nginx

    @classmethod
    def copy(cls, folder: Path, server: Nginx, settings: str = "") -> Foreign:
        """The project with these lines at the end of its settings."""
        shutil.copytree(FOREIGN, folder)
        with (folder / "tutorial" / "settings.py").open("a", encoding="utf-8") as file:
            file.write(settings)
        return cls(folder, server)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SITE": self.server.url, "PYTHONPATH": str(ROOT)}

    def started(self, *spiders: str) -> Forked:
        return Forked("tests.end_to_end.foreign_crawl", (str(self.folder), *spiders), self.environment)

    def crawl(self, *spiders: str) -> None:
        """Runs the spiders to their end."""
        with self.started(*spiders) as process:
            _, log = process.communicate(timeout=240)
            assert process.wait() == 0, log[-4000:]

    def items(self, spider: str) -> list[str]:
        file = self.folder / "items" / f"{spider}.jsonl"
        return sorted(file.read_text(encoding="utf-8").splitlines()) if file.exists() else []

    def asked(self) -> dict[str, list[str]]:
        """What was asked for by each spider since the last call, robots.txt left out."""
        found: dict[str, list[str]] = {}
        for line in self.server.log():
            if line.path != "/robots.txt":
                found.setdefault(line.agent, []).append(f"{line.method} {line.target}")
        self.server.clear_log()
        return found


@dataclass(frozen=True, slots=True)
class Comparison:
    stock: Foreign
    stock_asked: dict[str, list[str]]
    ours_asked: dict[str, list[str]]
    ours_items: dict[str, list[str]]
    """After the first run."""
    asked_again: dict[str, list[str]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    folder = tmp_path_factory.mktemp("site")
    with nginx(folder, server=SERVER) as server:
        write_sites(folder, server.url)
        yield server


@pytest.fixture(scope="module")
def compared(site: Nginx, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """All spiders on stock Scrapy, on ours, and on ours a second time in the same segment."""
    folder = tmp_path_factory.mktemp("projects")
    stock = Foreign.copy(folder / "stock", site)
    ours = Foreign.copy(folder / "ours", site, OURS)
    stock.crawl(*SPIDERS)
    stock_asked = stock.asked()
    ours.crawl(*SPIDERS)
    ours_asked, items = ours.asked(), {name: ours.items(name) for name in SPIDERS}
    ours.crawl(*SPIDERS)
    return Comparison(stock, stock_asked, ours_asked, items, ours.asked())


@pytest.mark.parametrize("spider", SPIDERS)
def test_a_spider_finds_and_asks_the_same_as_on_stock_scrapy_and_nothing_a_second_time(
    compared: Comparison, spider: str
) -> None:
    found, asked = compared.ours_items[spider], compared.ours_asked[spider]
    assert found
    assert set(found) == set(compared.stock.items(spider))
    assert set(asked) == set(compared.stock_asked[spider])
    assert [request for request, times in Counter(asked).items() if times > 1] == []
    again = compared.asked_again.get(spider, [])
    assert set(again) <= set(asked) if spider in ALWAYS else again == []


@pytest.mark.parametrize(("spider", "queue"), [("books", "sqlite"), ("quotes", "redis")])
def test_after_kills_every_page_was_served_and_every_item_came(
    compared: Comparison, tmp_path: Path, kills: int, spider: str, queue: str
) -> None:
    with ExitStack() as servers:
        settings = OURS + "CONCURRENT_REQUESTS = 4\nLEASE_SECONDS = 2\nMAX_ATTEMPTS = 50\n"
        if queue == "redis":
            settings += f'REDIS_URL = "{servers.enter_context(redis_server()).url}"\n'
        killed = Foreign.copy(tmp_path / "project", compared.stock.server, settings)
        killed.asked()
        random = Random(20261122)
        for _ in range(kills):
            seen, further = answered(killed.server), random.randint(1, 4)
            with killed.started(spider) as process:
                assert await_condition(lambda: answered(killed.server) >= seen + further, process)  # noqa: B023
                process.kill()
                process.communicate()
            assert process.returncode == -signal.SIGKILL
        killed.crawl(spider)
        assert set(killed.asked()[spider]) == set(compared.stock_asked[spider])
        assert set(killed.items(spider)) == set(compared.stock.items(spider))
