"""A store on S3, or on a service with the same interface: `<prefix>/ab/<sha1>.png` in one bucket."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import obstore
import obstore.store
from obstore.exceptions import BaseError

from tileharvest.errors import ConfigurationError, StoreError
from tileharvest.maps.template import is_address
from tileharvest.store.port import (
    HeldImage,
    MissingImageError,
    expect_bytes_of,
    expect_image_name,
    expect_intact,
)
from tileharvest.tiles.versions import is_image_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from obstore.store import ClientConfig, RetryConfig, S3Config

    from tileharvest.tiles.versions import Image

_EXAMPLE: Final = "write for example s3://my-bucket/tiles"
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_FOLDER: Final = re.compile(r"(?!\.\.?$)[A-Za-z0-9._=-]+", re.ASCII)
"""One folder of a prefix. S3 allows more characters; these are the ones that every client, proxy and shell
writes alike."""

_CONTENT_TYPES: Final = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}
_CACHE_CONTROL: Final = "max-age=31536000, immutable"
"""An object of this name never changes. A year is the longest time that caches take seriously."""

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_SENT: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
)
"""The variables that become parts of requests. obstore panics at some characters that cannot be sent."""

CONNECTING: Final = timedelta(seconds=5)
REQUEST: Final = timedelta(seconds=15)
"""The limit for one request, from connecting to the answer's last byte: enough for 1.8 MB at 1 Mbit/s."""
RETRIES: Final[RetryConfig] = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(seconds=0.25), "max_backoff": timedelta(seconds=10), "base": 4},
}
"""A call that gets no answer ends after 90 s."""

_PUTS_AT_ONCE: Final = 8
"""The number of images of a batch that are put at the same time. Each waits for the service's answers."""

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>", re.ASCII)
_SENTENCES: Final = (
    # Without credentials obstore asks for some at the metadata service of Amazon's own machines.
    (
        r"Error performing [A-Z]+ \S+/latest/(api|meta-data)/",
        "there are no credentials",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    ("<Code>NoSuchBucket", "there is no such bucket", "create it or correct TILE_STORE"),
    (
        "status code: 40[13]|<Code>(Expired|Invalid)Token",
        "the credentials are not accepted",
        "correct the AWS_... variables and this computer's clock, or allow them to read, write and list",
    ),
    (
        r"HttpError \{\s*kind: (?!Unknown)\w",
        "the service does not answer",
        "check AWS_ENDPOINT_URL and the network",
    ),
    ("", "the service has failed or refused", "wait a while or check AWS_ENDPOINT_URL and AWS_REGION"),
)
"""By the text of obstore's error: what happened, and what to do next. The first that is found counts.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html, and the codes of MinIO and Ceph."""


class S3Store:
    """A `TileStore` in a bucket, which must exist.

    S3 keeps an object whole or not at all, and answers when it is durable. Each image costs a look whether it
    is there. Two writers at the same moment may both put it, with the same bytes, and both learn that it is
    new. obstore repeats what may pass. If an image was kept but the answer was lost, the image counts as new.

    Endpoint and credentials come from the environment alone, by the names that Amazon's own tools use.
    Buckets are addressed by path unless AWS_VIRTUAL_HOSTED_STYLE_REQUEST is true. Opening a store asks the
    service nothing. Threads may share a store. A process that was forked after any store was used cannot use
    stores at all: obstore's threads are missing there, and calls never return.
    """

    def __init__(self, bucket: str, prefix: str = "", retries: RetryConfig = RETRIES) -> None:
        """`bucket` and `prefix` are as `parse_s3_url` returns them. Raises ConfigurationError if the
        environment cannot be used."""
        self._place = f"s3://{bucket}/{prefix}".rstrip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._objects = _connected(bucket, retries)

    def put(self, images: Mapping[Image, bytes]) -> set[Image]:
        with ThreadPoolExecutor(_PUTS_AT_ONCE, "store-put") as threads:
            putting = {image: threads.submit(self._put, image, body) for image, body in images.items()}
            try:
                return {image for image, is_new in putting.items() if is_new.result()}
            except BaseException:
                # If the service is away, each image would be tried for as long as the first one.
                threads.shutdown(cancel_futures=True)
                raise

    def _put(self, image: Image, body: bytes) -> bool:
        """Keeps the bytes of one image. Returns whether they were not there before."""
        expect_bytes_of(image, body)
        key = self._key(image.file_name)
        content = {"Content-Type": _CONTENT_TYPES[image.extension], "Cache-Control": _CACHE_CONTROL}
        with self._failing():
            with suppress(FileNotFoundError):
                if obstore.head(self._objects, key)["size"] == image.size:
                    return False
            # Several requests would not be whole or nothing.
            obstore.put(self._objects, key, body, attributes=content, use_multipart=False)
        return True

    def named(self, name: str) -> bytes:
        expect_image_name(name)
        with self._failing(name):
            body = bytes(obstore.get(self._objects, self._key(name)).bytes())
        expect_intact(f"{self._place}/{name[:2]}/{name}", name, body)
        return body

    def held(self) -> Iterator[HeldImage]:
        with self._failing():
            for part in obstore.list(self._objects, self._prefix):
                for one in part:
                    folder, _, name = one["path"].removeprefix(self._prefix).partition("/")
                    if is_image_name(name) and folder == name[:2]:
                        yield HeldImage(name, one["size"], one["last_modified"].timestamp())

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            expect_image_name(name)
        if names:
            with self._failing():
                obstore.delete(self._objects, [self._key(name) for name in names])

    def _key(self, name: str) -> str:
        return f"{self._prefix}{name[:2]}/{name}"

    @contextmanager
    def _failing(self, name: str | None = None) -> Iterator[None]:
        """Raises StoreError for what obstore raises, and MissingImageError if the named image is not there.

        Neither error shows obstore's error, because that quotes the service's answer and the endpoint, which
        may hold secrets.
        """
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            if name is not None and isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
                place = f"{self._place}/{name[:2]}/{name}"
                raise MissingImageError(f"image {place} is missing: restore it from a backup") from None
            raise StoreError(f"the store {self._place}: {_failure_line(error)}") from None


def _failure_line(error: Exception) -> str:
    """Returns what happened, what was kept and what to do next after an error of obstore. Unlike the error's
    own text, it holds no secret."""
    text = str(error)
    what, next_step = next(words for pattern, *words in _SENTENCES if re.search(pattern, text))
    answer = " ".join(found[1] for one in (_STATUS, _CODE) if (found := one.search(text)))
    happened = f"{what} ({answer})" if answer else what
    return f"{happened}; nothing recorded was lost; {next_step}, and run again"


def parse_s3_url(text: str) -> tuple[str, str]:
    """Returns bucket and prefix of `s3://bucket/some/prefix`. The prefix may be empty, and has no slash at
    its end.

    Raises ConfigurationError for any other text. Its message does not repeat the text, which may hold a
    password.
    """
    bucket, _, prefix = text.removeprefix("s3://").partition("/")
    prefix = prefix.removesuffix("/")
    is_bucket = text.startswith("s3://") and _BUCKET.fullmatch(bucket) and ".." not in bucket
    if not is_bucket or (prefix and not all(_FOLDER.fullmatch(folder) for folder in prefix.split("/"))):
        raise ConfigurationError(f"TILE_STORE is not a bucket on S3 with a plain prefix: {_EXAMPLE}")
    return bucket, prefix


def _connected(bucket: str, retries: RetryConfig) -> obstore.store.S3Store:
    """Returns a client for the bucket, with the settings of the environment. It asks the service nothing yet.

    Raises ConfigurationError for settings that cannot be used. The message does not repeat their values.
    """
    allows_http = os.environ.get("AWS_ALLOW_HTTP", "").strip().lower() in {"1", "true", "on", "yes", "y"}
    for name in _ENDPOINTS:
        if name in os.environ and not _is_endpoint(os.environ[name], allows_http=allows_http):
            raise ConfigurationError(
                f"{name} cannot be used: write for example {name}=https://s3.example.net, without"
                " credentials; an address with http://, on which everybody on the way reads along, needs"
                " AWS_ALLOW_HTTP=true"
            )
    for name in _SENT:
        if not _is_sendable(os.environ.get(name, "")):
            raise ConfigurationError(
                f"{name} holds a blank, a line's end or another sign that cannot be sent: write it again"
            )
    # The service compares the checksum with the bytes that arrived, and keeps it.
    config: S3Config = {} if "AWS_CHECKSUM_ALGORITHM" in os.environ else {"checksum_algorithm": "SHA256"}
    # Given any options, obstore does not read `allow_http` itself.
    options: ClientConfig = {"connect_timeout": CONNECTING, "timeout": REQUEST, "allow_http": allows_http}
    # Our error is raised outside of the block. Inside it would have obstore's error, which quotes values, as
    # its context.
    with suppress(BaseError, ValueError):
        return obstore.store.S3Store(bucket, config=config, client_options=options, retry_config=retries)
    raise ConfigurationError(
        "an AWS_... variable in the environment has a value that cannot be, or its other half is missing;"
        " correct or unset it"
    )


def _is_endpoint(address: str, *, allows_http: bool) -> bool:
    if not (_is_sendable(address) and is_address(address)):
        return False
    parts = urlsplit(address)
    is_secret = parts.username is not None or bool(parts.query)
    return not is_secret and (allows_http or parts.scheme == "https")


def _is_sendable(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value
