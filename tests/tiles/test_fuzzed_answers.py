"""Headers and images that nobody would think of: each has a verdict, or one clear line."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from random import Random
from typing import Final

from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image as Pillow

from tests.fuzz import assert_told, damaged, fuzzed
from tests.tiles.test_images import webp_of
from tileharvest.errors import printable
from tileharvest.tiles.images import identify, is_transparent
from tileharvest.tiles.verdict import Answer, Verdict, judge_existence, judge_get, judge_head, retry_after
from tileharvest.tiles.versions import Image, Validator, Version
from tileharvest.walk.proof import seconds_of

NOW: Final = datetime(2024, 5, 1, tzinfo=UTC)
DATE: Final = "Wed, 21 Oct 2015 07:28:00 GMT"


def drawn(kind: str, mode: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    picture = Pillow.frombytes("RGB", (24, 24), Random(kind).randbytes(3 * 24 * 24)).convert(mode)
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


IMAGES: Final = [
    drawn("PNG", "RGBA"),
    drawn("PNG", "P"),
    drawn("PNG", "RGB", dpi=(72, 72)),
    drawn("JPEG", "RGB"),
    drawn("JPEG", "L", progressive=True),
    drawn("WEBP", "RGB"),
    drawn("WEBP", "RGBA", lossless=True),
    webp_of(24, 24),
]

DATES = st.one_of(
    st.sampled_from([DATE, "9" * 400, "Wed, 21 Oct 99999 07:28:00 GMT", f"{DATE[:-3]}+99999999999999"]),
    st.text(max_size=40),
    st.builds(
        "{}, {} {} {} {}:{}:{} {}".format,
        st.sampled_from(["Wed", "x", ""]),
        st.integers(),
        st.sampled_from(["Oct", "October", "0"]),
        *(st.integers() for _ in range(4)),
        st.one_of(st.just("GMT"), st.integers().map("{:+}".format)),
    ),
)
TEXTS = st.one_of(st.none(), st.text(st.characters(max_codepoint=255), max_size=20), DATES)
VALIDATORS = st.builds(Validator, TEXTS, TEXTS)
VERSIONS = st.one_of(
    st.none(),
    st.builds(Version, st.dates(), st.one_of(st.none(), st.just(Image("0" * 40, "png", 5))), VALIDATORS),
)


@fuzzed(600)
@given(DATES)
def test_any_retry_after_is_so_many_seconds_or_none(value: str) -> None:
    seconds = retry_after(value, NOW)
    assert seconds is None or seconds >= 0


@fuzzed(400)
@given(DATES)
def test_any_date_is_a_time_or_none(value: str) -> None:
    seconds = seconds_of(value)
    assert seconds is None or abs(seconds) < 1e12


@fuzzed(400)
@given(
    st.builds(Answer, st.integers(0, 999), VALIDATORS, st.one_of(st.none(), st.integers()), st.binary()),
    VERSIONS,
)
def test_any_answer_has_a_verdict(answer: Answer, latest: Version | None) -> None:
    verdicts = [
        judge_head(answer, latest),
        judge_get(answer, latest, NOW.date()),
        *(judge_existence(answer, by_head=by_head) for by_head in (False, True)),
    ]
    for verdict in verdicts:
        if isinstance(verdict, Verdict):
            assert verdict.reason is None or verdict.reason == printable(verdict.reason)


@fuzzed(1_500)
@given(damaged(IMAGES))
@example(IMAGES[0][:33])
def test_any_damaged_image_is_whole_or_refused_in_a_line(body: bytes) -> None:
    try:
        image = identify(body, (24, 24))
    except ValueError as error:
        assert_told(error)
    else:
        assert image.size == len(body)
    is_transparent(body)
