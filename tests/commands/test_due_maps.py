"""Which maps a worker takes under a given clock, and which begin beside others; without a site."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.settings import Settings

from tests.history.making import began, ended
from tileharvest.commands.due_maps import DueMaps
from tileharvest.commands.runner import Runner
from tileharvest.errors import ExitStatus
from tileharvest.history.database import History

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
DUE = 'at = "11:00"'


class Box:
    """A project, its clock, and its workers."""

    def __init__(self, folder: Path) -> None:
        self.now, self.folder, self.file = NOON, folder, folder / "maps.toml"
        self.places = {"TILEHARVEST_MAPS": str(self.file), "TILEHARVEST_DATA": str(folder)}
        (folder / "queues").mkdir()

    def describe(self, **maps: str) -> None:
        """maps.toml has these maps, with these lines besides their address."""
        texts = [f'[{name}]\nurl = "http://h/"\n{lines}\n' for name, lines in maps.items()]
        self.file.write_text("".join(texts))

    def harvested(self, name: str, day: datetime) -> None:
        with History.open(f"sqlite:///{self.folder / 'history.sqlite'}") as history:
            ended(began(history, day.date(), name=name))

    def worker(self, *only: str) -> DueMaps:
        settings = Settings()
        settings.setmodule("tileharvest.settings")
        settings.setdict(self.places | {"DATABASE_URL": "", "REDIS_URL": ""}, priority="cmdline")
        maps = DueMaps(settings, only, lambda: self.now)
        maps.read_maps()
        # `open` gives signs of life, too, for which no event loop runs here.
        asyncio.run(maps._leases.open())
        return maps


def take(worker: DueMaps) -> str | None:
    return asyncio.run(worker.take())


@pytest.fixture
def box(tmp_path: Path) -> Box:
    box = Box(tmp_path)
    box.describe(a=DUE, b=DUE)
    return box


def test_the_map_that_is_due_first_is_taken_first(box: Box) -> None:
    box.describe(late=DUE, early='at = "04:00"', later='at = "13:00"')
    for name in ("late", "early", "later"):
        box.harvested(name, NOON - timedelta(days=1))
    worker = box.worker()
    assert [take(worker) for _ in range(3)] == ["early", "late", None]
    assert worker.outlook.endswith("next is map 'later' at 2026-11-22 13:00 UTC")
    box.now += timedelta(hours=1)
    assert take(worker) == "later"


def test_another_workers_map_is_left_to_it(box: Box) -> None:
    one, two = box.worker(), box.worker()
    assert (take(one), take(two), take(two)) == ("a", "b", None)
    assert two.outlook.startswith("what is due is at other workers")
    box.harvested("a", NOON)
    asyncio.run(one.done("a", ExitStatus.DONE, is_stopping=False))
    # The worker looks at a map again before it begins.
    box.now += timedelta(seconds=1)
    assert take(two) is None


def test_a_map_whose_queue_cannot_be_read_holds_no_other_up(
    box: Box, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = box.worker()
    (box.folder / "queues" / "a.sqlite").write_bytes(b"no database" * 100)
    assert [take(worker) for _ in range(2)] == ["b", None]
    box.now += timedelta(minutes=1)
    assert take(worker) is None
    assert capsys.readouterr().err.count("map 'a' is passed over: ") == 1


def test_what_failed_is_tried_again_later_each_time(box: Box, capsys: pytest.CaptureFixture[str]) -> None:
    worker = box.worker("a")
    assert take(worker) == "a"
    for minutes in (5, 10):
        asyncio.run(worker.done("a", ExitStatus.UNREACHABLE, is_stopping=False))
        again = f"{box.now + timedelta(minutes=minutes):%Y-%m-%d %H:%M} UTC"
        assert f"map 'a' is tried again at {again}" in capsys.readouterr().err
        box.now += timedelta(minutes=minutes, seconds=-1)
        assert take(worker) is None
        box.now += timedelta(seconds=1)
        assert take(worker) == "a"


def test_a_worker_waits_for_a_file_that_is_not_there_yet(box: Box) -> None:
    box.file.unlink()
    worker = box.worker()
    assert take(worker) is None
    assert worker.outlook == f"there is no {box.file}: `tileharvest add NAME URL` writes one"
    box.describe(a="")
    assert take(worker) == "a"


@pytest.mark.parametrize(
    ("at_once", "under_way", "held", "has_place"),
    [
        (2, 1, 0, True),
        (2, 2, 0, False),
        # One that waits leaves its place, and has it again when it goes on.
        (2, 2, 1, True),
        (2, 3, 1, False),
        # There are ten for each place at most, however they wait.
        (2, 19, 19, True),
        (2, 20, 20, False),
        # One after the other, also when one waits.
        (1, 0, 0, True),
        (1, 1, 1, False),
    ],
)
def test_a_map_begins_while_there_is_a_place(
    at_once: int, under_way: int, held: int, has_place: bool
) -> None:
    progress: Any = SimpleNamespace(held_up=lambda: ["one"] * held)
    nothing: Any = None
    runner = Runner(nothing, progress, nothing, at_once=at_once, arguments={})
    runner._crawlers.update(dict.fromkeys(map(str, range(under_way))))
    assert runner._has_place() is has_place
