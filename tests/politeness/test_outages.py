from datetime import datetime, timedelta, timezone

import pytest

from tileharvest.politeness.outages import MOST_REFUSALS, HostHealth, OutageLimits, no_answer_in_words
from tileharvest.politeness.waits import Wait

LIMITS = OutageLimits(failures=3, pause=1.0, longest_pause=8.0, patience=30.0)


def doubted(limits: OutageLimits = LIMITS, *, is_refusal: bool = False) -> HostHealth:
    health = HostHealth(limits)
    failures_to_doubt(health, is_refusal=is_refusal)
    return health


def failures_to_doubt(health: HostHealth, now: float = 100.0, *, is_refusal: bool = False) -> int:
    """The failures in a row after which the host is doubted."""
    number = 1
    while not health.failed(now, is_refusal=is_refusal):
        number += 1
    return number


def test_a_host_is_doubted_after_failures_in_a_row_and_a_late_answer_dispels_no_doubt() -> None:
    health = HostHealth(LIMITS)
    for _ in range(3):
        health.failed(1.0)
        health.failed(1.0)
        health.answered()
    assert not health.is_doubted
    assert failures_to_doubt(health) == 3
    assert not health.failed(1.0)
    health.answered()
    assert (health.is_doubted, health.is_down) == (True, False)


@pytest.mark.parametrize(
    ("is_refusal", "pauses"), [(False, [1, 2, 4, 8, 8, 7]), (True, [0, 1, 2, 4, 8, 8, 7])]
)
def test_pauses_double_and_a_last_probe_ends_the_patience(is_refusal: bool, pauses: list[float]) -> None:
    health, now, found = doubted(is_refusal=is_refusal), 100.0, []
    given_up = False
    while not given_up:
        found.append(health.next_pause(now))
        now += found[-1]
        given_up = health.probe_failed(now)
        assert health.is_down
    assert found == pauses


def test_no_patience_is_one_probe_and_time_in_which_nobody_was_to_ask_takes_none() -> None:
    impatient = doubted(OutageLimits(failures=1, pause=1.0, longest_pause=1.0, patience=0.0))
    assert impatient.next_pause(100.0) == 1
    assert impatient.probe_failed(101.0)
    health = doubted()
    health.next_pause(100.0)
    health.postponed(1000.0)
    assert health.next_pause(1100.0) == 2
    assert not health.probe_failed(1102.0)


def test_a_host_that_was_down_or_that_others_probe_is_as_any_other_when_it_answers() -> None:
    health = doubted()
    for was_down in (True, False):
        if was_down:
            health.probe_failed(101.0)
        health.is_doubted_by_others = not was_down
        health.probe_answered()
        assert (health.is_doubted, health.is_down) == (False, False)
        assert failures_to_doubt(health, 200.0) == 3
        assert health.next_pause(200.0) == 1


def test_a_host_that_was_doubted_without_reason_is_trusted_twice_as_much_each_time() -> None:
    health, needed = HostHealth(LIMITS), []
    for _ in range(3):
        needed.append(failures_to_doubt(health))
        health.probe_answered()
    assert needed == [3, 6, 12]


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
    assert no_answer_in_words(error) == words


def test_each_limit_makes_the_pace_half_of_what_it_was_or_less_until_that_does_not_help() -> None:
    health, spacings = HostHealth(LIMITS), []
    for requests, seconds in ((50, 1.0), (100, 5.0), (150, 5.1)):
        assert health.slow_down(requests, seconds)
        health.answered(well=True)
        spacings.append(health.spacing)
    assert spacings == pytest.approx([2 * 1 / 50, 2 * 4 / 50, 4 * 4 / 50])
    assert [health.slow_down(0, 0.0) for _ in range(MOST_REFUSALS + 1)] == [True] * MOST_REFUSALS + [False]


@pytest.mark.parametrize(("refusals", "requests", "is_many"), [(3, 29, True), (3, 30, False), (2, 2, False)])
def test_a_host_that_refuses_a_tenth_is_asked_slower(refusals: int, requests: int, is_many: bool) -> None:
    health = HostHealth(LIMITS)
    for _ in range(refusals):
        health.answered(well=True)
        assert not health.failed(100.0, is_refusal=True)
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
    harmless = doubted()
    harmless.probe_answered()
    assert may_limit(harmless) == [False, False, False]


ZONE = timezone(timedelta(hours=1), "CET")
EVENING = datetime(2024, 5, 1, 23, 59, 30, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("until", "words"),
    [
        (None, "; no end is known"),
        (50.0, ", until 23:59:30 CET"),
        (129.0, ", until 23:59:59 CET"),
        (131.0, ", until 2024-05-02 00:00:01 CET"),
    ],
    ids=["nobody knows", "over already", "today", "tomorrow"],
)
def test_until_when_is_told_by_the_clocks_of_who_reads_it(until: float | None, words: str) -> None:
    assert Wait("robots.txt", 0.0, until).in_words(100.0, EVENING) == f"waiting for robots.txt{words}"
