"""The outcome table, row by row."""

import hashlib
import io
from datetime import UTC, date, datetime, timedelta

import pytest
from PIL import Image as Pillow

from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.verdict import (
    PASSING,
    Answer,
    HeadSupport,
    Verdict,
    conditional_headers,
    judge_existence,
    judge_get,
    judge_head,
    pause_before,
    retry_after,
)
from tileharvest.tiles.versions import Image, Validator, Version

TODAY = date(2026, 11, 20)
YESTERDAY = date(2026, 11, 19)
MODIFIED = "Fri, 20 Nov 2026 10:00:00 GMT"


def png(colour: str) -> bytes:
    buffer = io.BytesIO()
    Pillow.new("RGB", (8, 8), colour).save(buffer, "PNG")
    return buffer.getvalue()


RED, BLUE = png("red"), png("blue")
RED_IMAGE = Image(hashlib.sha1(RED).hexdigest(), "png", len(RED))
BLUE_IMAGE = Image(hashlib.sha1(BLUE).hexdigest(), "png", len(BLUE))
KNOWN = Version(YESTERDAY, RED_IMAGE, Validator('"a"', MODIFIED))
GONE = Version(YESTERDAY, None)


def head(status: int = 200, etag: str | None = None, modified: str | None = None, length: int | None = None):
    return Answer(status, Validator(etag, modified), length)


def get(body: bytes, etag: str | None = '"new"', status: int = 200):
    return Answer(status, Validator(etag, MODIFIED), len(body), body)


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize(
    ("latest", "outcome"), [(None, Outcome.NOTHING), (GONE, Outcome.NOTHING), (KNOWN, Outcome.GONE)]
)
def test_missing_tile_is_gone_only_if_a_version_is_known(status, latest, outcome):
    assert judge_head(head(status), latest) == Verdict(outcome)
    assert judge_get(get(b"", status=status), latest, TODAY) == Verdict(outcome)


@pytest.mark.parametrize("etag", ['"a"', 'W/"a"'])
@pytest.mark.parametrize("stored", ['"a"', 'W/"a"'])
def test_equal_etag_is_ign_whether_weak_or_strong(etag, stored):
    latest = Version(YESTERDAY, RED_IMAGE, Validator(stored))
    assert judge_head(head(etag=etag), latest) == Verdict(Outcome.IGNORED)


def test_other_etag_calls_for_a_get():
    assert judge_head(head(etag='"b"'), KNOWN) == "GET"


@pytest.mark.parametrize("latest", [None, GONE])
def test_tile_without_a_known_image_calls_for_a_get(latest):
    assert judge_head(head(etag='"a"'), latest) == "GET"


def test_without_etag_time_and_length_together_are_ign():
    assert judge_head(head(modified=MODIFIED, length=len(RED)), KNOWN) == Verdict(Outcome.IGNORED)


@pytest.mark.parametrize(
    ("modified", "length"),
    [
        (None, None),
        (None, len(RED)),
        (MODIFIED, None),
        (MODIFIED, len(RED) + 1),
        ("Sat, 21 Nov 2026 10:00:00 GMT", len(RED)),
    ],
)
def test_without_etag_anything_less_calls_for_a_get(modified, length):
    assert judge_head(head(modified=modified, length=length), KNOWN) == "GET"


def test_etag_that_appears_calls_for_a_get_so_that_it_can_be_stored():
    latest = Version(YESTERDAY, RED_IMAGE, Validator(None, MODIFIED))
    assert judge_head(head(etag='"a"', modified=MODIFIED, length=len(RED)), latest) == "GET"


@pytest.mark.parametrize("status", [405, 501])
def test_refused_head_calls_for_a_conditional_get(status):
    assert judge_head(head(status), KNOWN) == "conditional GET"


@pytest.mark.parametrize("status", [200, 204, 206, 301, 304, 400, 403, 418, 429, 500, 503, 599])
def test_other_answers_to_a_head_fail_unless_they_are_200(status):
    verdict = judge_head(head(status, etag='"a"'), KNOWN)
    assert verdict.outcome is (Outcome.IGNORED if status == 200 else Outcome.FAILED)


@pytest.mark.parametrize(
    ("body", "latest", "outcome"),
    [
        (RED, None, Outcome.ADDED),
        (RED, GONE, Outcome.ADDED),
        (BLUE, KNOWN, Outcome.UPDATED),
        (BLUE, Version(TODAY, RED_IMAGE), Outcome.REPLACED),
    ],
)
def test_other_bytes_make_a_version_with_the_gets_validator(body, latest, outcome):
    verdict = judge_get(get(body), latest, TODAY)
    image = RED_IMAGE if body is RED else BLUE_IMAGE
    assert verdict == Verdict(outcome, image, Validator('"new"', MODIFIED))


@pytest.mark.parametrize("day", [YESTERDAY, TODAY])
def test_same_bytes_are_nmod_with_the_gets_validator(day):
    verdict = judge_get(get(RED), Version(day, RED_IMAGE, Validator('"a"')), TODAY)
    assert verdict == Verdict(Outcome.NOT_MODIFIED, validator=Validator('"new"', MODIFIED))


def test_not_modified_answer_is_ign():
    assert judge_get(get(b"", status=304), KNOWN, TODAY) == Verdict(Outcome.IGNORED)


@pytest.mark.parametrize("latest", [None, GONE])
def test_not_modified_answer_without_a_known_image_fails(latest):
    assert judge_get(get(b"", status=304), latest, TODAY).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>busy</html>", b"version https://git-lfs.github.com/spec/v1\n", RED[:-5]],
    ids=["empty", "page", "pointer", "cut off"],
)
@pytest.mark.parametrize("latest", [None, KNOWN])
def test_body_that_is_no_image_fails_with_a_reason(body, latest):
    verdict = judge_get(get(body), latest, TODAY)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason
    assert verdict.image is None


def test_failed_answer_is_named_in_words():
    assert judge_head(head(503), None).reason == "503 Service Unavailable"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, Outcome.IGNORED),
        (404, Outcome.NOTHING),
        (410, Outcome.NOTHING),
        (405, "conditional GET"),
        (500, Outcome.FAILED),
    ],
)
def test_tile_that_is_not_kept_is_only_asked_whether_it_exists(status, expected):
    verdict = judge_existence(head(status, '"a"'), by_head=True)
    assert (verdict if isinstance(verdict, str) else verdict.outcome) == expected


def test_an_answer_that_names_no_state_does_not_tell_whether_a_tile_exists():
    """Some renderers' own servers answer so for tiles that are not there."""
    assert judge_existence(Answer(200, length=119), by_head=True) == "GET"
    verdict = judge_existence(Answer(200, body=RED), by_head=False)
    assert isinstance(verdict, Verdict)
    assert verdict.outcome is Outcome.IGNORED


def test_refused_get_of_a_tile_that_is_not_kept_fails():
    verdict = judge_existence(get(b"", status=405), by_head=False)
    assert isinstance(verdict, Verdict)
    assert verdict.outcome is Outcome.FAILED


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 522])
def test_failure_that_may_pass_is_asked_again(status):
    assert status in PASSING


@pytest.mark.parametrize("status", [200, 301, 304, 400, 401, 403, 404, 405, 410, 451, 501])
def test_other_answers_are_not_asked_again(status):
    assert status not in PASSING


def test_pauses_double():
    assert [pause_before(attempt, 1.0, None) for attempt in (2, 3, 4, 5)] == [1, 2, 4, 8]


def test_server_can_ask_for_a_longer_pause_but_not_for_a_shorter_one():
    assert [pause_before(3, 1.0, asked) for asked in (30.0, 0.5)] == [30, 2]


NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("Fri, 20 Nov 2026 12:01:30 GMT", 90),
        ("Fri, 20 Nov 2026 11:00:00 GMT", 0),
        (None, None),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_retry_after_is_read_in_both_forms(value, seconds):
    assert retry_after(value, NOW) == seconds


def test_retry_after_counts_from_now():
    value = "Fri, 20 Nov 2026 12:01:30 GMT"
    assert retry_after(value, NOW + timedelta(seconds=60)) == 30


@pytest.mark.parametrize(
    ("latest", "headers"),
    [
        (None, {}),
        (GONE, {}),
        (KNOWN, {"If-None-Match": '"a"'}),
        (Version(YESTERDAY, RED_IMAGE, Validator(None, MODIFIED)), {"If-Modified-Since": MODIFIED}),
        (Version(YESTERDAY, RED_IMAGE), {}),
    ],
)
def test_conditional_get_names_what_the_history_has(latest, headers):
    assert conditional_headers(latest) == headers


@pytest.mark.parametrize(
    ("head", "get", "is_refused"),
    [(403, 200, True), (404, 304, True), (405, None, True), (404, 404, False), (403, 403, False)],
)
def test_a_host_that_refuses_head_is_known_by_the_get_that_follows(
    head: int, get: int | None, is_refused: bool
) -> None:
    heads = HeadSupport()
    assert heads.doubts("tile", head, is_expected=True) is (get is not None)
    if get is not None:
        heads.learn("another", 200)
        assert not heads.is_refused
        heads.learn("tile", get)
    assert heads.is_refused is is_refused


def test_a_missing_tile_is_checked_only_until_the_host_has_answered_a_head() -> None:
    heads = HeadSupport()
    assert not heads.doubts("never seen", 404, is_expected=False)
    assert heads.doubts("known", 404, is_expected=True)
    heads.learn("known", 404)
    assert not heads.doubts("known, too", 404, is_expected=True)
    other = HeadSupport()
    other.doubts("there", 200, is_expected=True)
    assert not other.doubts("known", 404, is_expected=True)
