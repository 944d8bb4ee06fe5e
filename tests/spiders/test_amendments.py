"""What a person changes in maps.toml holds at once, also where a harvest waits to begin."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import Settings

from tests.middlewares.making import run_jumping
from tileharvest.errors import TileHarvestError
from tileharvest.history.costs import NO_COST
from tileharvest.maps.budgets import Budget
from tileharvest.maps.settings import described_map
from tileharvest.politeness.robots import Robots
from tileharvest.politeness.settings import rules_for
from tileharvest.spiders.amendments import Amendments

if TYPE_CHECKING:
    from pathlib import Path

    from tileharvest.politeness.rules import Rules


class Throttle:
    """The throttle of a map, which notes what it is told."""

    def __init__(self) -> None:
        self.rules: Rules | None = None
        self.budget: Budget | None = None

    def obey(self, rules: Rules) -> None:
        if rules.concurrency == 3:
            raise AttributeError("a mistake")
        self.rules = rules


class Amended:
    """A crawl of a map whose entry in maps.toml can be changed."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "maps.toml"
        self.settings = Settings()
        self.settings.setmodule("tileharvest.settings")
        self.settings.set("TILEHARVEST_MAPS", str(self.file))
        self.settings.set("TILEHARVEST_DATA", str(folder))
        self.describe("concurrency = 2")
        description = described_map(self.settings, "m")
        self.ends: list[Any] = []
        self.throttle = Throttle()
        self.crawl: Any = SimpleNamespace(
            crawler=SimpleNamespace(settings=self.settings),
            harvest=SimpleNamespace(
                description=description,
                limit=lambda rules, folder: None,
                check_room=lambda: None,
                spent=self.spent,
            ),
            rules=rules_for(self.settings, description),
            robots=Robots(),
            throttle=self.throttle,
            end=self.ends.append,
        )

    async def spent(self) -> Any:
        return NO_COST

    def describe(self, *lines: str) -> None:
        self.file.unlink(missing_ok=True)
        self.file.write_text("\n".join(["[m]", 'url = "http://maps.example.net/"', *lines]))

    def amendments(self) -> Amendments:
        return Amendments(self.settings, self.crawl, NO_COST)


@pytest.fixture
def amended(tmp_path: Path) -> Amended:
    return Amended(tmp_path)


@pytest.mark.parametrize("concurrency", [1, 7])
def test_another_concurrency_holds_for_the_throttle(amended: Amended, concurrency: int) -> None:
    amendments = amended.amendments()
    amended.describe(f"concurrency = {concurrency}")
    asyncio.run(amendments.look())
    assert amended.throttle.rules is not None
    assert amended.throttle.rules.concurrency == concurrency


def test_what_is_changed_of_another_map_is_not_told_of_this_one(
    amended: Amended, caplog: pytest.LogCaptureFixture
) -> None:
    amendments = amended.amendments()
    amended.describe("concurrency = 2", "[other]", 'url = "http://other.example.net/"')
    asyncio.run(amendments.look())
    assert caplog.messages == []
    amended.describe("concurrency = 2", '[hosts."maps.example.net"]', "requests_per_second = 1")
    asyncio.run(amendments.look())
    (line,) = caplog.messages
    assert line.endswith("has changed; for map 'm' what it says of hosts: from now on")


def test_a_mistake_in_the_program_ends_the_crawl_and_is_told(amended: Amended) -> None:
    amendments = amended.amendments()
    amended.describe("concurrency = 3")
    run_jumping(amendments.watch())
    (error,) = amended.ends
    assert isinstance(error, TileHarvestError)
    assert "AttributeError" in str(error)


def test_an_amended_budget_is_the_one_of_the_run(amended: Amended) -> None:
    amendments = amended.amendments()
    amended.describe("budget = { requests = 9 }")
    asyncio.run(amendments.look())
    assert amended.throttle.budget == Budget(requests=9)


def test_that_the_file_cannot_be_read_is_told_once_for_all_maps_under_way(
    amended: Amended, caplog: pytest.LogCaptureFixture
) -> None:
    several = [amended.amendments() for _ in range(3)]
    for wrong in ("concurrency = 0", "concurency = 2"):
        amended.describe(wrong)
        for amendments in several:
            asyncio.run(amendments.look())
    assert len(caplog.messages) == 2
    assert all(line.endswith("; what is under way goes on as before") for line in caplog.messages)
