"""Hosts that fail or refuse: when they are doubted and probed, slowed down, and given up."""

import asyncio
from datetime import datetime, timedelta, timezone
from itertools import count, pairwise
from typing import Any, cast

import pytest
from scrapy.settings import Settings

from tileharvest.history.costs import CostMeter
from tileharvest.politeness.outages import MOST_REFUSALS, HostHealth, OutageLimits, answer_in_words
from tileharvest.politeness.waits import Hold, HoldReason, Wait
from tileharvest.spiders.outages import Outages, Patience
from tileharvest.tiles.verdict import Answer

LIMITS = OutageLimits(failures=3, pause=1.0, longest_pause=8.0, patience=30.0)
HOST, URL = "map.example.net", "http://map.example.net/a.png"


def failures_to_doubt(health: HostHealth) -> int:
    """The failures in a row after which the host is doubted."""
    return next(number for number in count(1) if health.failed())


class Crawl:
    """A crawl of a host that has answered well, and fails from then on, for requests and for probes."""

    def __init__(self, limits: OutageLimits = LIMITS) -> None:
        self.waits: list[Wait] = []
        self.cost_meter = CostMeter()
        self.ending: Exception | None = None
        self.throttle = self
        self.down: set[str] = set()
        self.held: Hold | None = None
        self.may_probe = True
        """Whether this worker may make the next probe."""
        self.status = 503
        self.probes: list[float] = []
        """When probes were made."""
        self.outages = Outages(cast("Any", self), limits, Patience(Settings()), self.probe)

    async def claim_probe(self, host: str, seconds: float) -> bool:
        return self.may_probe

    def slow_down(self, spacing: float) -> None:
        pass

    async def probe(self, url: str) -> Answer:
        self.probes.append(now())
        return Answer(self.status)

    def end(self, error: Exception) -> None:
        self.ending = error

    def doubt(self) -> int:
        """Lets requests fail until the host is doubted. Returns their number."""
        self.outages.judged(HOST, URL, Answer(200), 1)
        failed = Answer(self.status)
        return next(one for one in count(1) if self.outages.judged(HOST, URL, failed, 1) is None)

    async def probed(self, seconds: float = 1_000.0) -> list[float]:
        """The pauses before the probes of the next seconds."""
        began = now()
        await asyncio.sleep(seconds)
        return [later - earlier for earlier, later in pairwise([began, *self.probes])]


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_host_is_doubted_after_failures_in_a_row() -> None:
    health = HostHealth(LIMITS)
    for _ in range(3):
        assert not health.failed()
        assert not health.failed()
        health.answered()
    assert failures_to_doubt(health) == 3


@pytest.mark.parametrize(
    ("status", "pauses", "said"),
    [
        (503, [1, 2, 4, 8, 8, 8], "has not answered for 30 s"),
        (403, [0, 1, 2, 4, 8, 8, 8], "still refuses requests"),
    ],
)
async def test_pauses_double_until_a_probe_finds_that_the_patience_has_ended(
    status: int, pauses: list[float], said: str
) -> None:
    crawl = Crawl()
    crawl.status = status
    assert crawl.doubt() == 3
    assert crawl.down == {HOST}
    assert await crawl.probed() == pytest.approx(pauses)
    assert said in str(crawl.ending)


async def test_a_host_that_forbids_what_it_has_never_given_is_up() -> None:
    crawl = Crawl()
    while crawl.outages.judged(HOST, URL, Answer(503), 1) is not None:
        assert not crawl.down
    crawl.status = 403
    await crawl.probed(1.5)
    assert (crawl.down, len(crawl.probes)) == (set(), 1)


async def test_time_in_which_nobody_was_to_ask_takes_no_patience() -> None:
    crawl = Crawl()
    crawl.doubt()
    crawl.held = Hold(HoldReason.PAUSED)
    assert await crawl.probed(100.0) == []
    crawl.held, began = Hold(HoldReason.DOWN), now()
    await crawl.probed()
    assert LIMITS.patience - LIMITS.longest_pause <= crawl.probes[-1] - began
    assert "has not answered" in str(crawl.ending)


@pytest.mark.parametrize(
    ("may_probe", "fails_for", "needed"), [(True, 0, [3, 6, 12]), (True, 1.5, [3] * 3), (False, 1.5, [3] * 3)]
)
async def test_a_host_that_was_doubted_without_reason_is_trusted_twice_as_much_each_time(
    may_probe: bool, fails_for: float, needed: list[int]
) -> None:
    """Another worker that makes the first probe may have found it down."""
    crawl, found = Crawl(), []
    for _ in needed:
        crawl.may_probe, crawl.status = may_probe, 503
        found.append(crawl.doubt())
        await asyncio.sleep(fails_for)
        crawl.may_probe, crawl.status = True, 404
        await asyncio.sleep(10)
        assert not crawl.down
    assert found == needed


def test_pauses_between_attempts_double_and_a_server_can_ask_for_longer_ones() -> None:
    patience = Patience(Settings({"RETRY_TIMES": 4, "RETRY_PAUSE": 1.0}))
    failed, asked = Answer(503), [Answer(503, retry_after=one) for one in ("30", "1", "1000")]
    assert [patience.pause_before(attempt, failed) for attempt in range(2, 7)] == [1, 2, 4, 8, None]
    assert [patience.pause_before(3, one) for one in asked] == [30, 2, None]


@pytest.mark.parametrize(
    ("message", "cause", "words"),
    [
        ("Failed to connect to 127.0.0.1", ConnectionRefusedError(), "connection refused"),
        ("Could not resolve host: nowhere.invalid", OSError(), "Could not resolve host: nowhere.invalid"),
        ("", None, "RuntimeError"),
    ],
)
def test_why_there_is_no_answer(message: str, cause: BaseException | None, words: str) -> None:
    error = RuntimeError(message)
    error.__cause__ = cause
    assert answer_in_words(error) == words


def test_each_limit_makes_the_pace_half_of_what_it_was_or_less_until_that_does_not_help() -> None:
    health, spacings = HostHealth(LIMITS), []
    for requests, seconds in ((50, 1.0), (100, 5.0), (150, 5.1)):
        assert health.slow_down(requests, seconds)
        health.answered()
        spacings.append(health.spacing)
    assert spacings == pytest.approx([2 * 1 / 50, 2 * 4 / 50, 4 * 4 / 50])
    assert [health.slow_down(0, 0.0) for _ in range(MOST_REFUSALS + 1)] == [True] * MOST_REFUSALS + [False]


@pytest.mark.parametrize(("refusals", "requests", "is_many"), [(3, 29, True), (3, 30, False), (2, 2, False)])
def test_a_host_that_refuses_a_tenth_is_asked_slower(refusals: int, requests: int, is_many: bool) -> None:
    health = HostHealth(LIMITS)
    for _ in range(refusals):
        health.answered()
        assert not health.failed(is_refusal=True)
    assert health.refuses_many(requests) is is_many
    health.slow_down(requests, 1.0)
    assert not health.refuses_many(requests)


def test_a_tile_with_a_403_is_asked_once_more_or_as_one_with_a_429_at_a_host_that_limits() -> None:
    def may_limit(health: HostHealth) -> list[bool]:
        return [health.may_limit(attempt) for attempt in (1, 2, 3)]

    assert may_limit(HostHealth(LIMITS)) == [True, False, False]
    limiting = HostHealth(LIMITS)
    limiting.slow_down(50, 1.0)
    assert may_limit(limiting) == [True, True, True]
    # A probe has shown that the tiles are refused, and not whoever asks for them.
    harmless = HostHealth(LIMITS)
    harmless.dispelled(was_down=False)
    assert may_limit(harmless) == [False, False, False]


EVENING = datetime(2024, 5, 1, 23, 59, 30, tzinfo=timezone(timedelta(hours=1), "CET"))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "; no end is known"),
        (-50.0, ", until 23:59:30 CET"),
        (29.0, ", until 23:59:59 CET"),
        (31.0, ", until 2024-05-02 00:00:01 CET"),
    ],
    ids=["nobody knows", "over already", "today", "tomorrow"],
)
def test_until_when_is_told_by_the_clocks_of_who_reads_it(seconds: float | None, words: str) -> None:
    until = None if seconds is None else EVENING.timestamp() + seconds
    assert Wait("robots.txt", until).in_words(EVENING) == f"waiting for robots.txt{words}"
