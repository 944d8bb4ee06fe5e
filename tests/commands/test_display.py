"""What is shown of a running harvest: lines that move on a terminal, and lines for everything else."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
from rich.console import Console
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from tests.middlewares.making import LATER, NOW, run_jumping, unopened
from tileharvest.commands.display import Display, chosen, drawn, drawn_together, in_words
from tileharvest.commands.lookout import Lookout
from tileharvest.commands.project_command import say_waits
from tileharvest.commands.terminal import console
from tileharvest.errors import HistoryError, QueueError
from tileharvest.history.costs import Cost
from tileharvest.history.summaries import HarvestSummary
from tileharvest.monitoring.figures import Activity, Figures, Rate, State, Whole
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.waits import noted
from tileharvest.scheduler.crawl import Crawl
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tileharvest.harvest.harvest import Harvest

FOUND: Final = Figures(
    2_400,
    {Outcome.NOTHING: 50, Outcome.IGNORED: 1_190, Outcome.UPDATED: 10, Outcome.FAILED: 3},
    Cost(1_256, 4_100_000, seconds=30),
    rate=Rate(40.1, 38.25),
)
ASKED: Final = "404 50, ign 1,190, upd 10, fail 3; 1,256 requests, 4.1 MB"
WAIT: Final = "http://map.example.net/robots.txt to answer"
SINCE: Final = "2026-11-20 12:31:00 UTC"
RECORDED: Final = HarvestSummary(
    id=1,
    segment=LATER.isoformat(),
    day=LATER,
    started=NOW,
    ended=None,
    reason=None,
    depth={},
    renderer="overviewer",
    counts={Outcome.ADDED: 10},
    expected=40,
    cost=Cost(25, 3_000, seconds=5),
)


@pytest.fixture
def running(tmp_path: Path) -> Harvest:
    """A harvest that has found something."""
    harvest = unopened(tmp_path)
    harvest.tally.update({Outcome.IGNORED: 1_200, Outcome.NOTHING: 50, Outcome.UPDATED: 3})
    harvest.traffic.requests = 1_256
    harvest.traffic.received_bytes = 2_000
    harvest.is_open = True
    return harvest


@dataclass
class Running:
    """A harvest about which this is told."""

    harvest: Harvest
    recorded: Callable[[], HarvestSummary | None] = lambda: None
    since: Callable[[], str | None] = lambda: None
    quiet: str | None = None
    held: set[Reason] = field(default_factory=set)
    is_shared: bool = False
    wait: tuple[str, str | None] | None = None


class ToldLookout(Lookout):
    """The lookout on a harvest about which this is told."""

    def __init__(self, told: Running) -> None:
        crawler = SimpleNamespace(settings=Settings())
        spider: Any = SimpleNamespace(harvest=told.harvest, crawl=None, crawler=crawler)
        super().__init__(spider, is_dry=True, clock=asyncio.get_running_loop().time)
        self.is_shared = told.is_shared
        self.told = told

    def waits(self) -> tuple[str, str | None] | None:
        return self.told.wait

    def reasons(self) -> set[Reason]:
        return self.told.held

    def quiet_until(self) -> str | None:
        return self.told.quiet

    async def paused_since(self) -> str | None:
        return self.told.since()

    async def progress(self) -> HarvestSummary | None:
        return self.told.recorded()


async def shown_for(seconds: float, harvest: Harvest, file: Console, **options: Any) -> None:
    lookout = ToldLookout(Running(harvest))
    display = Display(file, 60, maps=1, **options)
    display.add(lookout)
    showing = asyncio.ensure_future(display.show())
    await asyncio.sleep(seconds)
    showing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await showing


def watched(given: Running, *steps: tuple[float, Callable[[], object]]) -> list[Figures]:
    """The figures at the beginning, and so many seconds after each step."""

    async def run() -> list[Figures]:
        lookout = ToldLookout(given)
        watch = asyncio.ensure_future(lookout.keep_watch())
        await asyncio.sleep(0)
        found = [lookout.figures()]
        for seconds, step in steps:
            step()
            await asyncio.sleep(seconds)
            found.append(lookout.figures())
        watch.cancel()
        return found

    found: list[Figures] = run_jumping(run())
    return found


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (
            FOUND,
            f"1,203 of about 2,400 tiles, 50 %; {ASKED}; 38.2 tiles/s, 31 s left",
        ),
        (
            replace(FOUND, expected=1_200),
            f"1,203 tiles, where about 1,200 were expected; {ASKED}; 38.2 tiles/s, over expected",
        ),
        (
            replace(FOUND, expected=0, state=State(Activity.PAUSED, paused_since=SINCE)),
            f"paused since {SINCE}; 1,203 tiles; {ASKED}",
        ),
        (
            replace(FOUND, is_pruned=True),
            f"1,203 tiles in a pruned walk of about 2,400; {ASKED}; 38.2 tiles/s",
        ),
        (
            Figures(0, {}, Cost(), State(Activity.BEGINNING)),
            "asking the site; 0 tiles; none found yet; 0 requests, 0 B",
        ),
        (
            Figures(0, {}, Cost(), State(Activity.BEGINNING, wait=(WAIT, "12:32:01 UTC"))),
            (
                f"asking the site; waiting for {WAIT}, until 12:32:01 UTC; 0 tiles; none found yet;"
                " 0 requests, 0 B"
            ),
        ),
        (
            replace(FOUND, rate=None, state=State(Activity.WAITING, wait=("the history", None))),
            f"waiting for the history; no end is known; 1,203 of about 2,400 tiles, 50 %; {ASKED}",
        ),
    ],
    ids=["half", "beyond", "paused", "pruned", "beginning", "beginning slowly", "waiting"],
)
def test_all_figures_in_one_line(figures: Figures, words: str) -> None:
    assert in_words(figures) == words


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("activity", Activity)
def test_on_a_terminal_there_are_two_lines_however_narrow_it_is(activity: Activity, width: int) -> None:
    state = State(
        activity,
        paused_since=SINCE,
        quiet_until=SINCE,
        wait=(WAIT, "12:32:01 UTC"),
        stopped="budget: 1,000 requests",
    )
    file = io.StringIO()
    large = replace(FOUND, expected=1_234_567, counts=dict.fromkeys(Outcome, 100_000), state=state)
    Console(file=file, width=width, color_system=None, markup=False).print(
        drawn("a-map-of-a-long-name", large)
    )
    lines = file.getvalue().splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) <= width
    assert lines[1].startswith("  fail 100,000")
    assert activity is not Activity.PAUSED or "  paused since 2026" in lines[0]


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("activity", Activity)
def test_of_several_maps_each_has_one_line_on_a_terminal_however_narrow_it_is(
    activity: Activity, width: int
) -> None:
    file = io.StringIO()
    state = State(activity, paused_since=SINCE, quiet_until=SINCE)
    maps = {f"a-map-of-a-long-name-{one}": replace(FOUND, state=state) for one in range(200)}
    shown = {name: maps[name] for name in chosen([], maps, 20)}
    whole = Whole(done=40).with_running(maps.values())
    drawing = drawn_together(shown, whole, 240, width)
    Console(file=file, width=width, color_system=None, markup=False).print(drawing)
    lines = file.getvalue().splitlines()
    assert len(lines) == 22
    assert max(map(len, lines)) <= width
    assert lines[-2] == "and 180 more under way"
    assert lines[-1].startswith("40/240 maps  ")
    # There the terminal writes ^C. On one of 60 columns it may begin a line with it.
    assert len(lines[-1]) <= width - 3 or width < 80
    assert activity is not Activity.QUIET or lines[0].endswith("  quiet hours")
    assert lines[0].startswith("a-map-of-a-long-name-0 ") is (width == 200)


def test_what_a_map_waits_for_stands_below_it_and_until_when_beside_those_of_others() -> None:
    held = State(Activity.WAITING, wait=(WAIT, "12:32:01 UTC"))
    file = io.StringIO()
    shown = Console(file=file, width=100, color_system=None, markup=False)
    shown.print(drawn("world", replace(FOUND, state=held)))
    shown.print(drawn_together({"world": replace(FOUND, state=held)}, Whole(under_way=1), 2, 100))
    _, below, beside, _ = file.getvalue().splitlines()
    assert below.startswith(f"  fail 3  waiting for {WAIT}, until 12:32:01 UTC")
    assert beside.endswith("  until 12:32:01 UTC")


def test_what_holds_a_harvest_up_is_told_to_programs(tmp_path: Path) -> None:
    (begun,) = watched(Running(unopened(tmp_path), wait=(WAIT, "12:32:01 UTC")))
    plain = begun.as_plain()
    assert (plain["state"], plain["waits_for"], plain["waits_until"]) == ("beginning", WAIT, "12:32:01 UTC")


def test_a_person_who_adds_a_map_hears_once_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    crawl = Crawl(Crawler(Spider))

    async def run() -> None:
        saying = asyncio.ensure_future(say_waits(crawl))
        with noted(crawl.waits, WAIT):
            await asyncio.sleep(4)
            assert capsys.readouterr().err == ""
            await asyncio.sleep(30)
        saying.cancel()

    run_jumping(run())
    assert capsys.readouterr().err == f"waiting for {WAIT}; no end is known\n"


def test_the_busiest_maps_are_shown_and_stay_while_they_are_at_work() -> None:
    def at(rate: float, activity: Activity = Activity.RUNNING) -> Figures:
        return replace(FOUND, rate=Rate(rate, rate), state=State(activity))

    maps = {"slow": at(1), "quick": at(9), "paused": at(9, Activity.PAUSED), "fast": at(5)}
    assert chosen([], maps, 2) == ["quick", "fast"]
    maps["slow"] = at(20)
    assert chosen(["quick", "fast"], maps, 2) == ["quick", "fast"]
    maps["quick"] = at(9, Activity.DOWN)
    assert chosen(["quick", "fast"], maps, 2) == ["fast", "slow"]
    del maps["fast"]
    assert chosen(["fast", "slow"], maps, 3) == ["slow", "quick", "paused"]
    assert chosen([], maps, 0) == ["slow"]


def test_several_maps_are_one_line_off_a_terminal() -> None:
    held = replace(FOUND, state=State(Activity.PAUSED))
    whole = Whole().with_ended(FOUND).with_ended(None).with_running([FOUND, held])
    assert whole.in_words(4) == (
        "2 of 4 maps done, 2 under way of which 1 wait; 3,609 tiles, 9 failed; 3,768 requests, 12.3 MB;"
        " 38.2 tiles/s"
    )
    assert Whole().with_running([FOUND]).in_words(None).startswith("0 maps done, 1 under way; 1,203 tiles")
    assert Whole(done=1).in_words(None).startswith("1 map done, 0 under way; 0 tiles")


def test_on_a_terminal_a_pruned_walk_is_named_and_no_share_is_made_up() -> None:
    file = io.StringIO()
    Console(file=file, width=120, color_system=None, markup=False).print(
        drawn("world", replace(FOUND, is_pruned=True))
    )
    first, _ = file.getvalue().splitlines()
    assert "1,203 tiles, pruned" in first
    assert "2,400" not in first
    assert "left" not in first


@pytest.mark.parametrize("walk", ["pruned", "full"])
def test_before_a_continued_harvest_has_begun_its_earlier_run_tells_the_walk(
    tmp_path: Path, walk: str
) -> None:
    (begun,) = watched(Running(unopened(tmp_path), lambda: replace(RECORDED, walk=walk)))
    assert begun.is_pruned is (walk == "pruned")


def test_on_a_pipe_there_is_a_line_per_interval(running: Harvest) -> None:
    file = io.StringIO()
    run_jumping(shown_for(150, running, console(file)))
    lines = file.getvalue().splitlines()
    assert len(lines) == 2
    begins = "small: 1,203 tiles; 404 50, ign 1,200, upd 3; 1,256 requests, 2.0 kB"
    assert lines[0] == begins
    assert lines[1] == begins.replace("small: ", "small: waiting; ") + "; 0.0 tiles/s"


def test_with_json_each_line_is_an_object_also_on_a_terminal(running: Harvest) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=80, markup=False)
    run_jumping(shown_for(61, running, terminal, as_json=True))
    (line,) = file.getvalue().splitlines()
    told = json.loads(line)
    assert (told["map"], told["day"], told["state"]) == ("small", LATER.isoformat(), "running")
    assert (told["tiles_done"], told["requests"], told["received_bytes"]) == (1_203, 1_256, 2_000)


def test_a_short_harvest_writes_no_line_on_a_pipe(running: Harvest) -> None:
    file = io.StringIO()
    run_jumping(shown_for(59, running, console(file)))
    assert file.getvalue() == ""


def test_on_a_terminal_the_log_is_written_above_what_moves_which_is_gone_at_the_end(
    running: Harvest, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=140, color_system=None, markup=False)
    handler = logging.StreamHandler(file)
    monkeypatch.setattr(logging.root, "handlers", [handler])
    monkeypatch.setattr(sys, "stderr", file)

    async def run() -> None:
        showing = asyncio.ensure_future(shown_for(1, running, terminal))
        await asyncio.sleep(0.6)
        logging.getLogger("test").warning("something is wrong")
        sys.stderr.write("stopping\n")
        await showing

    run_jumping(run())
    written = file.getvalue()
    assert "small" in written
    assert "404 50  ign 1,200  upd 3  1,256 requests" in written
    for line in ("something is wrong", "stopping"):
        # What moves is erased before the line, and drawn again below it.
        before, after = written.split(line)
        assert before.endswith("\x1b[2K")
        assert after.lstrip().startswith("small")
    # The cursor is shown again, and what moved is erased: what follows begins at its place.
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")
    assert written.endswith("\x1b[2K")
    assert handler.stream is file


def test_a_process_alone_counts_itself(running: Harvest) -> None:
    begun, later = watched(Running(running), (10, lambda: running.tally.update({Outcome.ADDED: 50})))
    assert (begun.done, begun.cost.requests, begun.state.activity) == (1_203, 1_256, Activity.RUNNING)
    assert (later.done, later.rate) == (1_253, Rate(0, 5))


def test_what_others_have_done_before_is_counted_too(tmp_path: Path) -> None:
    harvest = unopened(tmp_path)
    recorded = [RECORDED]

    def works() -> None:
        harvest.traffic.requests = 7
        recorded.append(replace(RECORDED, counts={Outcome.ADDED: 12}, cost=Cost(30, 3_500, seconds=6)))

    begun, later = watched(Running(harvest, lambda: recorded[-1]), (4, works))
    assert (begun.expected, begun.done, begun.cost) == (40, 10, RECORDED.cost)
    # What this process has asked it knows better than the history, which learns of it a little later.
    assert (later.done, later.cost.requests) == (12, 25 + 7)
    shared = watched(Running(harvest, lambda: recorded[-1], is_shared=True))
    assert shared[0].cost == recorded[-1].cost


def test_the_rate_of_a_fleet_is_that_from_look_to_look(tmp_path: Path) -> None:
    """10 tiles a second, whenever the figures are asked for."""

    def progress() -> HarvestSummary:
        done = round(10 * asyncio.get_running_loop().time())
        return replace(RECORDED, expected=1_000, counts={Outcome.ADDED: done}, cost=Cost(2 * done))

    harvest = unopened(tmp_path)
    harvest.is_open = True
    steps = [(seconds, lambda: None) for seconds in (0.5, 2, 1.1, 3.2, 2.7)]
    *_, last = watched(Running(harvest, progress, is_shared=True), *steps)
    assert last.rate == pytest.approx(Rate(20, 10), rel=0.01)
    assert last.seconds_left == pytest.approx((1_000 - last.done) / 10, rel=0.01)


def test_what_is_recorded_of_another_segment_is_not_counted(tmp_path: Path) -> None:
    (begun,) = watched(Running(unopened(tmp_path), lambda: replace(RECORDED, segment="2020-01-01")))
    assert (begun.expected, begun.done) == (0, 0)


def test_since_when_it_is_paused_and_until_when_it_is_quiet(running: Harvest) -> None:
    given = Running(running, since=lambda: SINCE, quiet="2026-11-20 23:00 UTC")
    _, quiet, paused, resumed = watched(
        given,
        (2, lambda: given.held.add(Reason.QUIET)),
        (2, lambda: given.held.add(Reason.PAUSED)),
        (2, given.held.clear),
    )
    assert quiet.state == State(Activity.QUIET, quiet_until="2026-11-20 23:00 UTC")
    assert paused.state == State(Activity.PAUSED, paused_since=SINCE)
    assert resumed.state == State(Activity.RUNNING)


def test_where_history_and_queue_cannot_be_asked_the_harvest_is_shown_without_them(
    running: Harvest,
) -> None:
    def broken() -> HarvestSummary:
        raise HistoryError("no disk")

    def away() -> str:
        raise QueueError("no Redis")

    given = Running(running, broken, away, held={Reason.PAUSED}, is_shared=True)
    begun, later = watched(given, (10, lambda: None))
    assert (begun.done, later.done) == (1_203, 1_203)
    assert later.state == State(Activity.PAUSED)
