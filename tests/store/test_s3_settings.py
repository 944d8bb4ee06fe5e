from __future__ import annotations

import traceback

import pytest

from tests.servers.s3 import lead_to
from tileharvest.errors import ConfigurationError
from tileharvest.store.s3 import S3Store, parse_s3_url

PASSWORD = "open-sesame"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names a service that is not there. No test asks it."""
    lead_to("http://127.0.0.1:9", monkeypatch)


# ------------------------------------------------------------------------------------------- TILE_STORE


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [
        ("s3://my-bucket", "my-bucket", ""),
        ("s3://my-bucket/", "my-bucket", ""),
        ("s3://my-bucket/tiles", "my-bucket", "tiles"),
        ("s3://my-bucket/tiles/", "my-bucket", "tiles"),
        ("s3://a.b-3/Maps/2026_v1.0=x", "a.b-3", "Maps/2026_v1.0=x"),
    ],
)
def test_an_address_is_bucket_and_prefix(text: str, bucket: str, prefix: str) -> None:
    assert parse_s3_url(text) == (bucket, prefix)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "not an address on S3"),
        ("my-bucket/tiles", "not an address on S3"),
        ("s3:my-bucket", "not an address on S3"),
        ("https://my-bucket.s3.amazonaws.com/tiles", "not an address on S3"),
        ("s3:///tiles", "bucket"),
        ("s3://ab", "bucket"),
        ("s3://My-Bucket", "bucket"),
        ("s3://my..bucket", "bucket"),
        ("s3://my-bucket:9000/tiles", "bucket"),
        ("s3://my-bucket//tiles", "prefix"),
        ("s3://my-bucket/a/../b", "prefix"),
        ("s3://my-bucket/my tiles", "prefix"),
        ("s3://my-bucket/tiles\n", "prefix"),
    ],
)
def test_what_is_no_address_is_one_line_with_an_example(text: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong) as caught:
        parse_s3_url(text)
    assert str(caught.value).endswith(": write for example s3://my-bucket/tiles")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f"s3://key:{PASSWORD}@my-bucket/tiles",
        f"s3://my-bucket/tiles?secret={PASSWORD}",
        f"s3://{PASSWORD}:x",
        f"s3://my-bucket/{PASSWORD}!",
    ],
)
def test_what_may_be_a_password_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_s3_url(text)
    assert PASSWORD not in "".join(traceback.format_exception_only(caught.value))


# ------------------------------------------------------------------------------------- the environment


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("AWS_ENDPOINT_URL", ""),
        ("AWS_ENDPOINT_URL_S3", "127.0.0.1:9000"),
        ("AWS_ENDPOINT", "ftp://a"),
        ("AWS_ENDPOINT", "https://"),
        ("AWS_ENDPOINT_URL", "https://a:b"),
        ("AWS_ENDPOINT_URL", "https://a b"),
    ],
)
def test_an_endpoint_that_is_no_address_is_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str, address: str
) -> None:
    monkeypatch.setenv(name, address)
    with pytest.raises(ConfigurationError) as caught:
        S3Store("tiles")
    assert str(caught.value) == f"{name} is not an address: write for example {name}=https://s3.example.net"


def test_an_endpoint_with_a_password_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://me:{PASSWORD}@s3.example.net")
    with pytest.raises(ConfigurationError, match="takes no credentials") as caught:
        S3Store("tiles")
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("allowed", [None, "false"])
def test_an_endpoint_that_is_not_encrypted_must_be_allowed(
    monkeypatch: pytest.MonkeyPatch, allowed: str | None
) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    if allowed is not None:
        monkeypatch.setenv("AWS_ALLOW_HTTP", allowed)
    with pytest.raises(ConfigurationError, match="set AWS_ALLOW_HTTP=true"):
        S3Store("tiles")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_ACCESS_KEY_ID", f"{PASSWORD}\n"),
        ("AWS_SECRET_ACCESS_KEY", f"{PASSWORD} "),
        ("AWS_SESSION_TOKEN", f"{PASSWORD}é"),
        ("AWS_REGION", f"\t{PASSWORD}"),
    ],
)
def test_what_cannot_be_sent_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"^{name} holds .*: write it again$") as caught:
        S3Store("tiles")
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("missing", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_half_of_a_key_is_refused(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.delenv(missing)
    with pytest.raises(ConfigurationError, match="only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        S3Store("tiles")


@pytest.mark.parametrize("name", ["AWS_CHECKSUM_ALGORITHM", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"])
def test_another_setting_that_cannot_be_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, PASSWORD)
    with pytest.raises(ConfigurationError, match="correct or unset it") as caught:
        S3Store("tiles")
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
