"""The maps that a worker takes, under a given clock; without Scrapy, and without a site."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from scrapy.settings import Settings

from tests.history.making import began, ended
from tileharvest.commands.due_maps import DueMaps
from tileharvest.errors import ExitStatus
from tileharvest.history.database import History

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
AT_ELEVEN = 'at = "11:00"'


class Box:
    """A project, its clock, and one worker."""

    def __init__(self, folder: Path) -> None:
        self.now = NOON
        self.file = folder / "maps.toml"
        self.database = f"sqlite:///{folder / 'history.sqlite'}"
        self.settings = Settings()
        self.settings.setmodule("tileharvest.settings")
        for name, value in {
            "TILEHARVEST_MAPS": str(self.file),
            "TILEHARVEST_DATA": str(folder),
            "DATABASE_URL": self.database,
            "REDIS_URL": "",
        }.items():
            self.settings.set(name, value, priority="cmdline")
        self.queues = folder / "queues"
        self.queues.mkdir()
        self._writes = 0

    def describe(self, **maps: str) -> None:
        """maps.toml has these maps, with these lines besides their address."""
        self._writes += 1
        texts = [f'[{name}]\nurl = "http://h/"\n{lines}\n' for name, lines in maps.items()]
        # Of another length each time, so that a coarse clock of the file system does not matter.
        self.file.write_text("".join(texts) + "#" * self._writes + "\n")

    def harvested(self, name: str, day: datetime) -> None:
        with History.open(self.database) as history:
            ended(began(history, day.date(), name=name))

    def worker(self, *only: str) -> Worker:
        return Worker(self, *only)


class Worker:
    def __init__(self, box: Box, *only: str) -> None:
        self.maps = DueMaps(box.settings, only, lambda: box.now)
        self.maps.read_maps()
        # `open` gives signs of life, too, for which no event loop runs here.
        asyncio.run(self.maps._leases.open())

    def take(self) -> str | None:
        return asyncio.run(self.maps.take())

    def done(self, name: str, status: ExitStatus = ExitStatus.DONE, *, is_stopping: bool = False) -> None:
        asyncio.run(self.maps.done(name, status, is_stopping=is_stopping))


@pytest.fixture
def box(tmp_path: Path) -> Box:
    box = Box(tmp_path)
    # Later than 11:00 on each of these days.
    box.describe(a=AT_ELEVEN, b=AT_ELEVEN)
    return box


def test_the_map_that_is_due_first_is_taken_first(box: Box) -> None:
    box.describe(late='at = "11:00"', early='at = "04:00"', later='at = "13:00"')
    for name in ("late", "early", "later"):
        box.harvested(name, NOON - timedelta(days=1))
    worker = box.worker()
    assert [worker.take() for _ in range(3)] == ["early", "late", None]
    assert worker.maps.outlook.endswith("next is map 'later' at 2026-11-22 13:00 UTC")
    box.now += timedelta(hours=1)
    assert worker.take() == "later"


def test_another_workers_map_is_left_to_it(box: Box) -> None:
    one, two = box.worker(), box.worker()
    assert (one.take(), two.take(), two.take()) == ("a", "b", None)
    assert two.maps.outlook.startswith("what is due is at other workers")
    box.harvested("a", NOON)
    one.done("a")
    # The worker looks at a map again before it begins.
    box.now += timedelta(seconds=1)
    assert two.take() is None


def test_a_map_whose_queue_cannot_be_read_holds_no_other_up(
    box: Box, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = box.worker()
    (box.queues / "a.sqlite").write_bytes(b"no database" * 100)
    assert [worker.take() for _ in range(2)] == ["b", None]
    box.now += timedelta(minutes=1)
    assert worker.take() is None
    assert capsys.readouterr().err.count("map 'a' is passed over: ") == 1


def test_what_failed_is_tried_again_later_each_time(box: Box, capsys: pytest.CaptureFixture[str]) -> None:
    worker = box.worker("a")
    assert worker.take() == "a"
    for minutes in (5, 10):
        worker.done("a", ExitStatus.UNREACHABLE)
        assert f"map 'a' is tried again at {box.now + timedelta(minutes=minutes):%Y-%m-%d %H:%M} UTC" in (
            capsys.readouterr().err
        )
        box.now += timedelta(minutes=minutes, seconds=-1)
        assert worker.take() is None
        box.now += timedelta(seconds=1)
        assert worker.take() == "a"


def test_a_worker_waits_for_a_file_that_is_not_there_yet(box: Box) -> None:
    box.file.unlink()
    worker = box.worker()
    assert worker.take() is None
    assert worker.maps.outlook == f"there is no {box.file}: `tileharvest add NAME URL` writes one"
    box.describe(a="")
    assert worker.take() == "a"
