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
        "",
        "my-bucket/tiles",
        "https://my-bucket.s3.amazonaws.com/tiles",
        "s3:///tiles",
        "s3://ab",
        "s3://My-Bucket",
        "s3://my..bucket",
        "s3://my-bucket//tiles",
        "s3://my-bucket/a/../b",
        "s3://my-bucket/tiles\n",
        f"s3://key:{PASSWORD}@my-bucket/tiles",
        f"s3://my-bucket/tiles?secret={PASSWORD}",
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
    for name, value in variables.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=wrong) as caught:
        S3Store("tiles")
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
