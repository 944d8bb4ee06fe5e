"""The stores of plain files and on S3, and the cache on disk."""

import os
import resource
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.servers import rules
from tests.servers.misbehaving import Answer, Exchange, Misbehaving, Rule
from tests.servers.s3 import KEY_ID, S3, SECRET, forwarded, lead_to
from tileharvest.errors import ConfigurationError, StoreError
from tileharvest.store import files
from tileharvest.store.cache import DiskCache
from tileharvest.store.files import LEFTOVER_AGE, FileStore
from tileharvest.store.port import MissingImageError
from tileharvest.store.s3 import RETRIES, S3Store, parse_s3_url
from tileharvest.tiles.versions import Image

BODY = b"\x89PNG sea"
IMAGE = Image(sha1(BODY).hexdigest(), "png", len(BODY))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that does not exist, and whose parent does not exist either."""
    return tmp_path / "data" / "images"


def test_an_image_is_named_by_its_sha1(root: Path) -> None:
    FileStore(root).put({IMAGE: BODY})
    assert files_in(root) == [root / IMAGE.sha1[:2] / f"{IMAGE.sha1}.png"]


@pytest.mark.parametrize("damage", [b"", BODY[:-1], BODY + b"\n", BODY[::-1]])
def test_a_damaged_file_is_not_given_and_is_replaced_by_its_size(root: Path, damage: bytes) -> None:
    store = FileStore(root)
    store.put({IMAGE: BODY})
    Path(store.path(IMAGE.file_name)).write_bytes(damage)
    with pytest.raises(StoreError, match=r"is damaged, its sha1 is .*: restore it from a backup") as caught:
        store.named(IMAGE.file_name)
    assert not isinstance(caught.value, MissingImageError)
    if len(damage) != IMAGE.size:
        assert store.put({IMAGE: BODY})
        assert store.named(IMAGE.file_name) == BODY


@pytest.mark.parametrize(("age", "is_kept"), [(LEFTOVER_AGE + 60, False), (LEFTOVER_AGE - 60, True)])
def test_a_clean_up_deletes_the_files_of_killed_writers(root: Path, age: float, *, is_kept: bool) -> None:
    file = Path(FileStore(root).path(IMAGE.file_name))
    file.parent.mkdir(parents=True)
    temporary = file.with_name(f".{file.name}.0123456789abcdef.unfinished")
    temporary.write_bytes(BODY[:3])
    os.utime(temporary, (time.time() - age, time.time() - age))
    FileStore(root).remove([])
    assert temporary.exists() is is_kept


def test_a_disk_that_takes_a_part_of_an_image_has_nothing_of_it(root: Path) -> None:
    body = bytes(40_000)
    image = Image(sha1(body).hexdigest(), "png", len(body))
    store = FileStore(root)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(StoreError, match="nothing recorded was lost"):
            store.put({image: body})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert files_in(root) == []


def test_a_full_disk_has_nothing_of_an_image_and_says_what_to_do(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def on_full_disk(place: str, flags: int, mode: int = 0o777) -> int:
        return opened("/dev/full" if flags & os.O_CREAT else place, flags & ~(os.O_CREAT | os.O_EXCL), mode)

    monkeypatch.setattr(os, "open", on_full_disk)
    line = f"disk full: the store {root} took no image; nothing recorded was lost; free space and run again"
    with pytest.raises(StoreError, match=f"^{line}$"):
        FileStore(root).put({IMAGE: BODY})
    assert files_in(root) == []


@pytest.mark.parametrize(("number", "is_synced_whole"), [(1, False), (3, False), (40, False), (40, True)])
def test_a_power_cut_finds_no_name_without_bytes_and_takes_nothing_that_was_put(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, is_synced_whole: bool
) -> None:
    kept: set[str] = set()
    """What a power cut would leave: bytes and names that were synced."""
    named: dict[str, str] = {}
    rename = os.replace

    def renamed(temporary: str, place: str) -> None:
        assert temporary in kept, "a name for bytes that are not on the disk"
        rename(temporary, place)
        named[place] = os.path.dirname(place)  # noqa: PTH120 - as text, as the store has it

    def synced(place: str) -> None:
        kept.update([place], (name for name, folder in named.items() if folder == place))

    def synced_whole(descriptor: int) -> None:
        # It was opened before the files were written, or errors of the writes would not be raised.
        assert os.path.samestat(os.fstat(descriptor), root.stat())
        kept.update(str(file) for file in root.rglob("*"))

    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(files, "_sync", synced)
    monkeypatch.setattr(files, "_sync_file_system", synced_whole)
    monkeypatch.setattr(files, "_is_synced_whole", lambda _: is_synced_whole)
    bodies = [f"image {each}".encode() for each in range(number)]
    images = {Image(sha1(body).hexdigest(), "png", len(body)): body for body in bodies}
    store = FileStore(root)
    store.put(images)
    assert {store.path(image.file_name) for image in images} <= kept
    # Those that another program has put may have been renamed only.
    kept.clear()
    FileStore(root).put(images)
    assert {store.path(image.file_name) for image in images} <= kept


def test_a_file_system_that_promises_nothing_is_not_synced_as_a_whole() -> None:
    # That of /proc is none of those that are known.
    with Path("/proc/version").open("rb") as file:
        assert not files._is_synced_whole(file.fileno())


PICTURE = b"x" * 1000


def files_in(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def test_what_was_put_is_there_also_for_the_next_process(tmp_path: Path) -> None:
    DiskCache(tmp_path, 10_000).put("a", PICTURE)
    assert DiskCache(tmp_path, 10_000).get("a") == PICTURE
    assert DiskCache(tmp_path, 10_000).get("b") is None


@pytest.mark.parametrize("damage", [b"", b"y" * 1032, PICTURE])
def test_a_damaged_file_is_not_there(tmp_path: Path, damage: bytes) -> None:
    cache = DiskCache(tmp_path, 10_000)
    cache.put("a", PICTURE)
    (file,) = files_in(tmp_path)
    file.write_bytes(damage)
    assert cache.get("a") is None
    assert files_in(tmp_path) == []


def test_what_was_not_asked_for_longest_makes_room(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 5 * 1032)
    for number in range(5):
        before = set(files_in(tmp_path))
        cache.put(str(number), PICTURE)
        (new,) = set(files_in(tmp_path)) - before
        os.utime(new, (number, number))
    assert cache.get("0") == PICTURE
    cache.put("5", PICTURE)
    assert {number for number in range(6) if cache.get(str(number)) is not None} == {0, 3, 4, 5}


def test_where_nothing_can_be_written_nothing_is_kept_and_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    cache = DiskCache(tmp_path / "cache", 10_000)
    cache.put("a", PICTURE)
    assert cache.get("a") is None


# -- S3


KEY = f"/tiles/maps/{IMAGE.sha1[:2]}/{IMAGE.sha1}.png"
TICK = timedelta(milliseconds=1)
BRISK: dict[str, Any] = {
    "retries": RETRIES
    | {"max_retries": 2, "backoff": {"init_backoff": TICK, "max_backoff": 2 * TICK, "base": 2.0}},
}
LOST = "nothing recorded was lost"
Call = Callable[[S3Store], object]
CALLS: dict[str, Call] = {
    "put": lambda store: store.put({IMAGE: BODY}),
    "named": lambda store: store.named(IMAGE.file_name),
}


@pytest.fixture
def store(s3: S3) -> S3Store:
    return S3Store("tiles", "maps")


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> Call:
    return CALLS[request.param]


@pytest.fixture
def site(
    s3: S3, misbehaving: Callable[[Path], Misbehaving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Misbehaving:
    """Passes everything on to S3, unless a test says otherwise. Stores that are opened from now on use it."""
    site = misbehaving(tmp_path)
    site.rule_for_all = forwarded(s3.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", site.url)
    return site


def refused(status: int, code: str) -> Rule:
    """Refuses as S3 does, and quotes the key that was used."""
    text = f"<Error><Code>{code}</Code><AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId></Error>"
    return Answer(status, {"Content-Type": "application/xml"}, text.encode())


def failure(call: Call, store: S3Store) -> str:
    """Returns the error's line, after a look for secrets in it and in a log of it."""
    with pytest.raises(StoreError) as caught:
        call(store)
    told = "".join(traceback.format_exception(caught.value))
    assert KEY_ID not in told
    assert SECRET not in told
    assert "Debug source" not in told
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_image_has_its_name_its_type_and_never_changes(s3: S3, store: S3Store) -> None:
    store.put({Image(IMAGE.sha1, "jpg", IMAGE.size): BODY})
    reply = s3.ask("GET", KEY.replace("png", "jpg"))
    assert reply.body == BODY
    assert reply.headers["Content-Type"] == "image/jpeg"
    assert reply.headers["Cache-Control"] == "max-age=31536000, immutable"


def test_of_a_batch_nothing_further_is_tried_after_an_image_could_not_be_put(site: Misbehaving) -> None:
    site.rule_for_all = refused(403, "AccessDenied")
    bodies = [f"image {number}".encode() for number in range(100)]
    with pytest.raises(StoreError, match="not accepted"):
        S3Store("tiles").put({Image(sha1(body).hexdigest(), "png", len(body)): body for body in bodies})
    assert len(site.received) < 100


def test_what_is_missing_says_what_to_do(store: S3Store) -> None:
    with pytest.raises(MissingImageError) as caught:
        store.named(IMAGE.file_name)
    assert str(caught.value) == f"image s3:/{KEY} is missing: restore it from a backup"


def test_a_damaged_object_is_not_given_and_is_replaced_by_its_size(s3: S3, store: S3Store) -> None:
    for damage in (BODY[::-1], BODY[:2]):
        s3.ask("PUT", KEY, damage)
        with pytest.raises(StoreError, match=f"is damaged, its sha1 is {sha1(damage).hexdigest()}: restore"):
            store.named(IMAGE.file_name)
    assert store.put({IMAGE: BODY})
    assert s3.ask("GET", KEY).body == BODY


def test_there_is_no_such_bucket(s3: S3, call: Call) -> None:
    assert failure(call, S3Store("nowhere", "maps")) == (
        f"the store s3://nowhere/maps: there is no such bucket (404 NoSuchBucket); {LOST};"
        " create it or correct TILE_STORE, and run again"
    )


def test_unknown_credentials_are_one_line(s3: S3, call: Call) -> None:
    with s3.checking_credentials():
        assert "the credentials are not accepted (403" in failure(call, S3Store("tiles"))


def test_without_credentials_it_says_how_to_give(s3: S3, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert failure(call, S3Store("tiles", **BRISK)) == (
        f"the store s3://tiles: there are no credentials; {LOST};"
        " set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and run again"
    )


@pytest.mark.parametrize(
    ("status", "code", "happened", "requests"),
    [
        (400, "ExpiredToken", "the credentials are not accepted", 1),
        (400, "InvalidRequest", "the service has failed or refused", 1),
        (503, "SlowDown", "the service has failed or refused", 3),
    ],
)
def test_a_refusal_is_one_line_at_once_or_after_all_attempts(
    site: Misbehaving, status: int, code: str, happened: str, requests: int
) -> None:
    site.rule_for_all = refused(status, code)
    line = failure(CALLS["named"], S3Store("tiles", "maps", **BRISK))
    assert line.startswith(f"the store s3://tiles/maps: {happened} ({status} {code}); {LOST}; ")
    assert len(site.received) == requests


def test_what_passes_is_not_noticed(s3: S3, site: Misbehaving, call: Call) -> None:
    store = S3Store("tiles", **BRISK)
    store.put({IMAGE: BODY})
    first = [rules.reset(), refused(503, "SlowDown")]

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await exchange.answered(first.pop(0) if first else forwarded(s3.url))

    site.rule_for_all = answer
    call(store)


PASSWORD = "open-sesame"


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [
        ("s3://my-bucket/", "my-bucket", ""),
        ("s3://my-bucket/tiles/", "my-bucket", "tiles"),
        ("s3://a.b-3/Maps/2026_v1.0=x", "a.b-3", "Maps/2026_v1.0=x"),
    ],
)
def test_an_address_is_bucket_and_prefix(text: str, bucket: str, prefix: str) -> None:
    assert parse_s3_url(text) == (bucket, prefix)


@pytest.mark.parametrize(
    "text",
    [
        *("", "my-bucket/tiles", "https://my-bucket.s3.amazonaws.com/tiles", "s3:///tiles"),
        *("s3://ab", "s3://My-Bucket", "s3://my..bucket"),
        *("s3://my-bucket//tiles", "s3://my-bucket/a/../b", "s3://my-bucket/tiles\n"),
        *(f"s3://key:{PASSWORD}@my-bucket/tiles", f"s3://my-bucket/tiles?secret={PASSWORD}"),
    ],
)
def test_what_is_no_address_is_one_line_with_an_example_and_without_a_password(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_s3_url(text)
    told = "".join(traceback.format_exception_only(caught.value))
    assert told.endswith(": write for example s3://my-bucket/tiles\n")
    assert PASSWORD not in told


@pytest.mark.parametrize(
    ("variables", "wrong"),
    [
        ({"AWS_ENDPOINT_URL": ""}, "AWS_ENDPOINT_URL cannot be used: write for example"),
        ({"AWS_ENDPOINT_URL_S3": "127.0.0.1:9000"}, "AWS_ENDPOINT_URL_S3 cannot be used"),
        ({"AWS_ENDPOINT": "ftp://a"}, "AWS_ENDPOINT cannot be used"),
        ({"AWS_ENDPOINT_URL": "https://a:b"}, "cannot be used"),
        ({"AWS_ENDPOINT_URL": "https://a b"}, "cannot be used"),
        ({"AWS_ENDPOINT_URL": f"https://me:{PASSWORD}@s3.example.net"}, "without credentials"),
        ({"AWS_ALLOW_HTTP": "false"}, "needs AWS_ALLOW_HTTP=true"),
        ({"AWS_ACCESS_KEY_ID": f"{PASSWORD}\n"}, "^AWS_ACCESS_KEY_ID holds .*: write it again$"),
        ({"AWS_SESSION_TOKEN": f"{PASSWORD}é"}, "^AWS_SESSION_TOKEN holds"),
        ({"AWS_ACCESS_KEY_ID": None}, "its other half is missing"),
        ({"AWS_CHECKSUM_ALGORITHM": PASSWORD}, "correct or unset it"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str | None], wrong: str
) -> None:
    # A service that is not there. Nothing is asked of it.
    lead_to("http://127.0.0.1:9", monkeypatch)
    for name, value in variables.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=wrong) as caught:
        S3Store("tiles")
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
