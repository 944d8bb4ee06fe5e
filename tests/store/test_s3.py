from __future__ import annotations

from base64 import b64encode
from hashlib import sha1, sha256
from typing import TYPE_CHECKING

import pytest

from tests.servers import rules
from tests.servers.misbehaving import Answer
from tests.servers.s3 import S3, forwarded
from tileharvest.errors import StoreError
from tileharvest.store.port import MissingImageError
from tileharvest.store.s3 import S3Store
from tileharvest.tiles.versions import Image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aiohttp import web

    from tests.servers.misbehaving import Exchange, Misbehaving, Rule

BODY = b"\x89PNG sea"
IMAGE = Image(sha1(BODY).hexdigest(), "png", len(BODY))
NOT_IMPLEMENTED = b"<Error><Code>NotImplemented</Code><Message>A header is not known here</Message></Error>"
KEY = f"/tiles/maps/{IMAGE.sha1[:2]}/{IMAGE.sha1}.png"


@pytest.fixture
def store(s3: S3) -> S3Store:
    return S3Store("tiles", "maps")


@pytest.fixture
def between(
    s3: S3, misbehaving: Callable[[Path], Misbehaving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Misbehaving:
    """Passes everything on to S3. Stores that are opened from now on use it."""
    site = misbehaving(tmp_path)
    site.rule_for_all = forwarded(s3.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", site.url)
    return site


def without_conditions(s3: S3, status: int = 501, words: bytes = b"") -> Rule:
    """A service that refuses every condition for a put, and otherwise is S3."""
    hand_on, refusal = forwarded(s3.url), Answer(status, {"Content-Type": "application/xml"}, words)

    async def answer(exchange: Exchange) -> web.StreamResponse:
        if "If-None-Match" in exchange.request.headers:
            return await exchange.send(refusal)
        return await hand_on(exchange)

    return answer


def state(s3: S3) -> tuple[str | None, str | None, bytes]:
    """Returns a mark of the object that changes when the object is overwritten."""
    reply = s3.ask("GET", KEY)
    return reply.headers["Last-Modified"], reply.headers["x-amz-version-id"], reply.body


def test_of_a_batch_nothing_further_is_tried_after_an_image_could_not_be_put(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Image] = []

    def put(image: Image, body: bytes) -> bool:
        tried.append(image)
        raise StoreError("the service is away")

    monkeypatch.setattr(store, "_put", put)
    images = {Image(f"{number:040x}", "png", 1): b"x" for number in range(100)}
    with pytest.raises(StoreError, match="the service is away"):
        store.put(images)
    # Those that eight threads had begun.
    assert len(tried) <= 8


def versioned(s3: S3) -> None:
    """From now on the bucket gives each write a number."""
    told = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    assert s3.ask("PUT", "/tiles?versioning", told).status == 200


# ------------------------------------------------------------------------------------------ what is kept


def test_an_image_is_named_by_its_sha1_below_the_prefix(s3: S3, store: S3Store) -> None:
    store.put({IMAGE: BODY})
    assert s3.ask("GET", KEY).body == BODY


@pytest.mark.parametrize(
    ("extension", "content_type"), [("png", "image/png"), ("jpg", "image/jpeg"), ("webp", "image/webp")]
)
def test_browsers_are_told_what_it_is_and_that_it_never_changes(
    s3: S3, store: S3Store, extension: str, content_type: str
) -> None:
    store.put({Image(IMAGE.sha1, extension, IMAGE.size): BODY})
    headers = s3.ask("HEAD", KEY.replace("png", extension)).headers
    assert headers["Content-Type"] == content_type
    assert headers["Cache-Control"] == "max-age=31536000, immutable"


def test_the_service_is_given_checksums_of_the_bytes(between: Misbehaving) -> None:
    S3Store("tiles", "maps").put({IMAGE: BODY})
    (received,) = between.received
    assert received.headers["x-amz-checksum-sha256"] == b64encode(sha256(BODY).digest()).decode()
    assert received.headers["x-amz-content-sha256"] == sha256(BODY).hexdigest()


def test_a_store_to_be_read_only_takes_no_image(s3: S3, store: S3Store) -> None:
    store.put({IMAGE: BODY})
    reader = S3Store("tiles", "maps", read_only=True)
    assert reader.named(IMAGE.file_name) == BODY
    with pytest.raises(StoreError, match="s3://tiles/maps was opened to be read only; nothing was written"):
        reader.put({IMAGE: BODY})


# ------------------------------------------------------------------------------- never overwritten


def test_an_image_that_is_there_is_not_overwritten(s3: S3) -> None:
    versioned(s3)
    assert S3Store("tiles", "maps").put({IMAGE: BODY})
    before = state(s3)
    assert not S3Store("tiles", "maps").put({IMAGE: BODY})
    assert state(s3) == before


def test_an_object_of_the_wrong_size_is_reported_and_left_as_it_is(s3: S3, store: S3Store) -> None:
    s3.ask("PUT", KEY, BODY[:2])
    with pytest.raises(StoreError) as caught:
        store.put({IMAGE: BODY})
    assert str(caught.value) == (
        f"image s3:/{KEY} has 2 bytes instead of {len(BODY)}; nothing was overwritten and nothing recorded"
        " was lost; delete that object and run again"
    )
    assert s3.ask("GET", KEY).body == BODY[:2]


def test_a_conflict_with_a_writer_that_came_to_nothing_is_tried_again(s3: S3, between: Misbehaving) -> None:
    hand_on, conflict = forwarded(s3.url), rules.status(409)
    left = 1

    async def answer(exchange: Exchange) -> web.StreamResponse:
        nonlocal left
        if exchange.request.method == "PUT" and left:
            left -= 1
            return await conflict(exchange)
        return await hand_on(exchange)

    between.rule_for_all = answer
    assert S3Store("tiles", "maps", pauses=(0.0,)).put({IMAGE: BODY})
    assert s3.ask("GET", KEY).body == BODY


# ----------------------------------------------------------------- services that refuse conditions


def test_a_service_that_refuses_conditions_overwrites_nothing(s3: S3, between: Misbehaving) -> None:
    versioned(s3)
    between.rule_for_all = without_conditions(s3)
    S3Store("tiles", "maps").put({IMAGE: BODY})
    before = state(s3)
    assert not S3Store("tiles", "maps").put({IMAGE: BODY})
    assert state(s3) == before


def test_that_a_service_refuses_conditions_is_found_out_once(s3: S3, between: Misbehaving) -> None:
    between.rule_for_all = without_conditions(s3)
    store = S3Store("tiles")
    for body in (b"one", b"two", b"three"):
        store.put({Image(sha1(body).hexdigest(), "png", len(body)): body})
    assert [received.method for received in between.received] == ["PUT"] + ["HEAD", "PUT"] * 3


# ------------------------------------------------------------------------------------- what is read


def test_what_is_missing_says_what_to_do(store: S3Store) -> None:
    with pytest.raises(MissingImageError) as caught:
        store.named(IMAGE.file_name)
    assert str(caught.value) == f"image s3:/{KEY} is missing: restore it from a backup"


def test_other_bytes_under_an_image_s_name_are_damage(s3: S3, store: S3Store) -> None:
    s3.ask("PUT", KEY, BODY[::-1])
    with pytest.raises(StoreError, match=f"is damaged, its sha1 is {sha1(BODY[::-1]).hexdigest()}: restore"):
        store.named(IMAGE.file_name)
