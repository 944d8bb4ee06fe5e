from __future__ import annotations

import time
import traceback
from datetime import timedelta
from hashlib import sha1
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers import rules
from tests.servers.misbehaving import Answer, Exchange
from tests.servers.s3 import KEY_ID, S3, SECRET, forwarded
from tileharvest.errors import StoreError
from tileharvest.store.s3 import S3Store
from tileharvest.tiles.versions import Image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aiohttp import web

    from tests.servers.misbehaving import Misbehaving, Rule

BODY = b"\x89PNG sea"
IMAGE = Image(sha1(BODY).hexdigest(), "png", len(BODY))
BRISK: dict[str, Any] = {"request": timedelta(seconds=0.2), "pauses": (0.0, 0.0)}
LOST = "nothing recorded was lost"

CALLS: dict[str, Callable[[S3Store], object]] = {
    "put": lambda store: store.put({IMAGE: BODY}),
    "named": lambda store: store.named(IMAGE.file_name),
}


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> Callable[[S3Store], object]:
    """Every call that asks the service."""
    return CALLS[request.param]


@pytest.fixture
def site(
    s3: S3, misbehaving: Callable[[Path], Misbehaving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Misbehaving:
    """A server that misbehaves on request. Stores that are opened from now on use it."""
    site = misbehaving(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", site.url)
    return site


def refused(status: int, code: str = "") -> Rule:
    """Refuses as S3 does, and quotes the key that was used."""
    text = f"<Error><Code>{code}</Code><AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId></Error>" if code else ""
    refusal = Answer(status, {"Content-Type": "application/xml"}, text.encode())

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await exchange.send(refusal)

    return answer


def failure(call: Callable[[S3Store], object], store: S3Store) -> str:
    """Returns the error's line, after a look for secrets in it and in a log of it."""
    with pytest.raises(StoreError) as caught:
        call(store)
    told = "".join(traceback.format_exception(caught.value))
    assert KEY_ID not in told
    assert SECRET not in told
    assert "Debug source" not in told
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ----------------------------------------------------------------------------------- what S3 itself says


def test_there_is_no_such_bucket(s3: S3, call: Callable[[S3Store], object]) -> None:
    assert failure(call, S3Store("nowhere", "maps")) == (
        f"the store s3://nowhere/maps: there is no such bucket (404 NoSuchBucket); {LOST};"
        " create it or correct TILE_STORE, and run again"
    )


def test_the_credentials_are_unknown(s3: S3) -> None:
    store = S3Store("tiles")
    with s3.checking_credentials():
        assert failure(CALLS["put"], store) == (
            f"the store s3://tiles: the credentials are not accepted (403 InvalidAccessKeyId); {LOST};"
            " correct or renew AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if it has one,"
            " AWS_SESSION_TOKEN, and run again"
        )


def test_strangers_are_denied_access(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    S3Store("tiles").put({IMAGE: BODY})
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    line = failure(CALLS["named"], S3Store("tiles"))
    assert line.startswith("the store s3://tiles: access is denied (403")
    assert line.endswith(
        "allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket to these credentials,"
        " and run again"
    )


# --------------------------------------------------------------------- what other services are known to say


@pytest.mark.parametrize(
    ("status", "code", "happened"),
    [
        (403, "AccessDenied", "access is denied"),
        (403, "SignatureDoesNotMatch", "the credentials are not accepted"),
        (400, "ExpiredToken", "the credentials are not accepted"),
        (403, "RequestTimeTooSkewed", "this computer's clock is wrong"),
        (400, "AuthorizationHeaderMalformed", "the bucket is in another region"),
        (507, "XMinioStorageFull", "the service has no room left for us"),
        (403, "QuotaExceeded", "the service has no room left for us"),
        (400, "InvalidRequest", "the service has refused"),
    ],
)
def test_what_lasts_is_one_line_at_once(site: Misbehaving, status: int, code: str, happened: str) -> None:
    site.rule_for_all = refused(status, code)
    line = failure(CALLS["put"], S3Store("tiles", "maps"))
    assert line.startswith(f"the store s3://tiles/maps: {happened} ({status} {code}); {LOST}; ")
    assert len(site.received) == 1


@pytest.mark.parametrize(
    ("status", "code", "happened"),
    [
        (503, "SlowDown", "the service asks to slow down"),
        (429, "TooManyRequests", "the service asks to slow down"),
        (500, "InternalError", "the service has failed"),
        (400, "RequestTimeout", "the service did not answer in time"),
    ],
)
def test_what_may_pass_is_one_line_in_the_end(
    site: Misbehaving, status: int, code: str, happened: str
) -> None:
    site.rule_for_all = refused(status, code)
    line = failure(CALLS["put"], S3Store("tiles", "maps", **BRISK))
    assert line.startswith(f"the store s3://tiles/maps: {happened} ({status} {code}); {LOST}; ")
    assert len(site.received) == 3


def test_another_kind_of_server_is_one_line(site: Misbehaving) -> None:
    site.rule_for_all = rules.status(200)
    assert failure(CALLS["put"], S3Store("tiles")) == (
        f"the store s3://tiles: what answers does not speak as S3 does; {LOST};"
        " check AWS_ENDPOINT_URL, and run again"
    )


def test_another_region_is_one_line(site: Misbehaving, call: Callable[[S3Store], object]) -> None:
    site.rule_for_all = refused(301)
    line = failure(call, S3Store("tiles"))
    assert line == (
        f"the store s3://tiles: the bucket is in another region; {LOST}; set AWS_REGION, and run again"
    )


# -------------------------------------------------------------------------------------- what passes


def test_what_passes_is_not_noticed(s3: S3, site: Misbehaving, call: Callable[[S3Store], object]) -> None:
    site.rule_for_all = forwarded(s3.url)
    store = S3Store("tiles", **BRISK)
    store.put({IMAGE: BODY})
    left = 2

    async def answer(exchange: Exchange) -> web.StreamResponse:
        nonlocal left
        left -= 1
        rule = rules.reset() if left == 1 else refused(503, "SlowDown") if left == 0 else forwarded(s3.url)
        return await rule(exchange)

    site.rule_for_all = answer
    call(store)
    assert left < 0


def test_an_image_that_breaks_off_is_fetched_again(s3: S3, site: Misbehaving) -> None:
    body = bytes(range(256)) * 400
    image = Image(sha1(body).hexdigest(), "png", len(body))
    site.rule_for_all = forwarded(s3.url)
    store = S3Store("tiles", **BRISK)
    store.put({image: body})
    hand_on, left = forwarded(s3.url), 1

    async def answer(exchange: Exchange) -> web.StreamResponse:
        nonlocal left
        if not left:
            return await hand_on(exchange)
        left -= 1
        head = {"Content-Type": "image/png", "ETag": '"e"', "Last-Modified": "Fri, 20 Nov 2026 12:00:00 GMT"}
        return await rules.broken_off(50_000)(Exchange(exchange.request, Answer(200, head, body)))

    site.rule_for_all = answer
    assert store.named(image.file_name) == body


def test_a_put_whose_answer_is_lost_is_there_the_second_time(s3: S3, site: Misbehaving) -> None:
    hand_on, drop = forwarded(s3.url), rules.reset()
    left = 1

    async def answer(exchange: Exchange) -> web.StreamResponse:
        nonlocal left
        given = await hand_on(exchange)
        left -= 1
        return await drop(exchange) if left == 0 else given

    site.rule_for_all = answer
    store = S3Store("tiles", **BRISK)
    assert not store.put({IMAGE: BODY})
    assert store.named(IMAGE.file_name) == BODY


# ----------------------------------------------------------------------------------------- patience


def test_a_service_that_never_answers_is_given_up(
    site: Misbehaving, call: Callable[[S3Store], object]
) -> None:
    site.rule_for_all = rules.hang()
    began = time.monotonic()
    assert failure(call, S3Store("tiles", **BRISK)) == (
        f"the store s3://tiles: the service did not answer in time; {LOST};"
        " check AWS_ENDPOINT_URL and the network, and run again"
    )
    # Three requests of 0.2 s.
    assert time.monotonic() - began >= 0.6


def test_without_credentials_it_says_how_to_give_some(
    s3: S3, call: Callable[[S3Store], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert failure(call, S3Store("tiles", **BRISK)) == (
        f"the store s3://tiles: there are no credentials; {LOST};"
        " set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and run again"
    )
