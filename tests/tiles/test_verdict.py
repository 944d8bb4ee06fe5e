"""The outcome table, row by row."""

from datetime import UTC, date, datetime, timedelta

import pytest

from tests.history.making import image_of
from tests.viewer.building import picture
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.verdict import (
    Answer,
    HeadSupport,
    Verdict,
    conditional_headers,
    judge_existence,
    judge_get,
    judge_head,
    retry_after,
    settled_by_head,
)
from tileharvest.tiles.versions import Validator, Version

TODAY, YESTERDAY = date(2026, 11, 20), date(2026, 11, 19)
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MODIFIED = "Fri, 20 Nov 2026 10:00:00 GMT"

RED, BLUE = picture(), picture((0, 0, 255, 255))
IMAGES = {body: image_of(body) for body in (RED, BLUE)}
KNOWN = Version(YESTERDAY, IMAGES[RED], Validator('"a"', MODIFIED))
DATED = Version(YESTERDAY, IMAGES[RED], Validator(None, MODIFIED))
GONE = Version(YESTERDAY, None)
NEW = Validator('"new"', MODIFIED)


def head(status: int = 200, etag: str | None = None, modified: str | None = None, length: int | None = None):
    return Answer(status, Validator(etag, modified), length)


def get(body: bytes, status: int = 200):
    return Answer(status, NEW, len(body), body)


def settled(answer: Answer, latest: Version | None) -> dict[Outcome, int]:
    """What is settled at once of a block with this answer at its fourth tile."""
    return settled_by_head({3: answer}, {} if latest is None else {3: latest}, 1 << 3)


def outcome_of(verdict: Verdict | None) -> str:
    return "GET" if verdict is None else verdict.outcome.value


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize(
    ("latest", "outcome"), [(None, Outcome.NOTHING), (GONE, Outcome.NOTHING), (KNOWN, Outcome.GONE)]
)
def test_missing_tile_is_gone_only_if_a_version_is_known(status, latest, outcome):
    assert judge_head(head(status), latest) == Verdict(outcome)
    assert settled(head(status), latest) == ({} if latest else {outcome: 8})
    assert judge_get(get(b"", status=status), latest, TODAY) == Verdict(outcome)


@pytest.mark.parametrize(
    ("answer", "latest", "expected"),
    [
        # Equal ETags decide, weak or strong.
        *(
            (head(etag=one), Version(YESTERDAY, IMAGES[RED], Validator(other)), "ign")
            for one in ('"a"', 'W/"a"')
            for other in ('"a"', 'W/"a"')
        ),
        (head(etag='"b"'), KNOWN, "GET"),
        (head(etag='"a"'), None, "GET"),
        (head(etag='"a"'), GONE, "GET"),
        # Without an ETag, time and length together; anything less calls for a GET.
        (head(modified=MODIFIED, length=len(RED)), KNOWN, "ign"),
        (head(), KNOWN, "GET"),
        (head(length=len(RED)), KNOWN, "GET"),
        (head(modified=MODIFIED), KNOWN, "GET"),
        (head(modified=MODIFIED, length=len(RED) + 1), KNOWN, "GET"),
        (head(modified="Sat, 21 Nov 2026 10:00:00 GMT", length=len(RED)), KNOWN, "GET"),
        # An ETag that appears is to be stored.
        (head(etag='"a"', modified=MODIFIED, length=len(RED)), DATED, "GET"),
        *(
            (head(status, etag='"a"'), KNOWN, "fail")
            for status in (204, 206, 301, 304, 400, 403, 418, 429, 500, 503, 599)
        ),
    ],
)
def test_an_answer_to_head(answer, latest, expected):
    assert outcome_of(judge_head(answer, latest)) == expected
    assert settled(answer, latest) == ({Outcome.IGNORED: 8} if expected == "ign" else {})
    assert settled_by_head({3: answer}, {3: latest} if latest else {}, ~(1 << 3)) == {}


@pytest.mark.parametrize(
    ("body", "latest", "verdict"),
    [
        (RED, None, Verdict(Outcome.ADDED, IMAGES[RED], NEW)),
        (RED, GONE, Verdict(Outcome.ADDED, IMAGES[RED], NEW)),
        (BLUE, KNOWN, Verdict(Outcome.UPDATED, IMAGES[BLUE], NEW)),
        (BLUE, Version(TODAY, IMAGES[RED]), Verdict(Outcome.REPLACED, IMAGES[BLUE], NEW)),
        (RED, KNOWN, Verdict(Outcome.NOT_MODIFIED, validator=NEW)),
        (RED, Version(TODAY, IMAGES[RED]), Verdict(Outcome.NOT_MODIFIED, validator=NEW)),
    ],
)
def test_an_answer_to_get(body, latest, verdict):
    assert judge_get(get(body), latest, TODAY) == verdict


@pytest.mark.parametrize(("latest", "outcome"), [(KNOWN, "ign"), (None, "fail"), (GONE, "fail")])
def test_a_304_is_an_answer_only_about_a_known_image(latest, outcome):
    assert outcome_of(judge_get(get(b"", status=304), latest, TODAY)) == outcome


@pytest.mark.parametrize("latest", [None, KNOWN])
def test_body_that_is_no_image_fails_with_a_reason(latest):
    verdict = judge_get(get(RED[:-5]), latest, TODAY)
    assert (verdict.outcome, verdict.image) == (Outcome.FAILED, None)
    assert verdict.reason
    assert judge_head(head(503), None).reason == "503 Service Unavailable"


@pytest.mark.parametrize(
    ("answer", "by_head", "expected"),
    [
        (head(200, '"a"'), True, "ign"),
        (head(404, '"a"'), True, "404"),
        (head(410, '"a"'), True, "404"),
        (head(500, '"a"'), True, "fail"),
        # Some renderers' own servers answer so for tiles that are not there. The bytes tell.
        (Answer(200, length=119), True, "GET"),
        (Answer(200, body=RED), False, "ign"),
        (get(b"", status=405), False, "fail"),
    ],
)
def test_tile_that_is_not_kept_is_only_asked_whether_it_exists(answer, by_head, expected):
    assert outcome_of(judge_existence(answer, by_head=by_head)) == expected


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("Fri, 20 Nov 2026 12:01:30 GMT", 90),
        ("Fri, 20 Nov 2026 11:00:00 GMT", 0),
        *((value, None) for value in (None, "soon", "-5", "")),
    ],
)
def test_retry_after_is_read_in_both_forms(value, seconds):
    assert retry_after(value, NOW) == seconds
    if seconds == 90:
        assert retry_after(value, NOW + timedelta(seconds=60)) == 30


@pytest.mark.parametrize(
    ("latest", "headers"),
    [
        (None, {}),
        (GONE, {}),
        (KNOWN, {"If-None-Match": '"a"'}),
        (DATED, {"If-Modified-Since": MODIFIED}),
        (Version(YESTERDAY, IMAGES[RED]), {}),
        (Version(YESTERDAY, IMAGES[RED], Validator('"\n"')), {}),
    ],
)
def test_conditional_get_names_what_the_history_has(latest, headers):
    assert conditional_headers(latest) == headers


@pytest.mark.parametrize(
    ("answers", "is_doubted", "is_refused"),
    [
        # Each is the status of an answer to HEAD, and that of the GET that checks it.
        ([(403, 200)], True, True),
        ([(404, 304)], True, True),
        ([(405, 500)], True, True),
        ([(404, 404)], False, False),
        ([(200, None)], False, False),
        ([(200, None), (405, 200)], True, True),
    ],
)
def test_a_refusal_of_head_is_checked_until_the_host_has_shown_what_its_answers_mean(
    answers: list[tuple[int, int | None]], is_doubted: bool, is_refused: bool
) -> None:
    heads = HeadSupport()
    assert not heads.doubts(404, "/empty", is_expected=False)
    for status, then in answers:
        assert heads.doubts(status, "/tile", is_expected=True) is heads.is_avoided is (then is not None)
        if then is not None:
            heads.learn(404, "/empty")
            assert heads.is_avoided
            heads.learn(then, "/tile")
    assert heads.is_answered is not is_refused
    assert heads.doubts(404, "/tile", is_expected=True) is is_doubted
    assert heads.is_avoided is is_refused
