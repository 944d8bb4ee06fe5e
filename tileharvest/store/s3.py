"""A store on S3, or on a service with the same interface: `<prefix>/ab/<sha1>.png` in one bucket."""

from __future__ import annotations

import os
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import obstore
import obstore.store
from obstore.exceptions import AlreadyExistsError, BaseError

from tileharvest.errors import ConfigurationError, StoreError
from tileharvest.store.port import (
    HeldImage,
    MissingImageError,
    expect_bytes_of,
    expect_image_name,
    expect_intact,
    is_whole,
)
from tileharvest.store.s3_errors import Refusal
from tileharvest.tiles.versions import is_image_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Literal

    from obstore.store import ClientConfig, S3Config

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
_KEY: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_SENT: Final = (
    *_KEY,
    "AWS_SESSION_TOKEN",
    "AWS_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
)
"""The variables that become parts of requests. obstore panics at some characters that cannot be sent."""

_FAILURES: Final = (BaseError, OSError, ValueError)
"""The errors that obstore raises."""

_Answer = TypeVar("_Answer")


CONNECTING: Final = timedelta(seconds=5)
REQUEST: Final = timedelta(seconds=15)
"""The limit for one request, from connecting to the answer's last byte: enough for 1.8 MB at 1 Mbit/s."""

PAUSES: Final = (0.25, 1.0, 4.0, 10.0)
"""Seconds before the second attempt, the third and so on. Each pause is shortened at random, by up to a half,
so that many threads that must slow down do not come back together. With them a call that gets no
answer ends after 90 s."""

_PUTS_AT_ONCE: Final = 8
"""The number of images of a batch that are put at the same time. Each waits for the service's answer."""


class S3Store:
    """A `TileStore` in a bucket, which must exist.

    S3 keeps an object whole or not at all, and answers when it is durable. Objects are put under the
    condition that there is none of the same name, so nothing is ever overwritten. Services that refuse the
    condition are asked first whether the object is there. Then two writers at the same moment may both put
    it, with the same bytes, and both learn that it is new. The same happens with a service that ignores
    the condition.

    An object of the wrong size was put by another program. It is reported and not replaced.

    After an error that may pass, a call is tried again, after `PAUSES`. If an image was kept but the answer
    was lost, the image counts as not new.

    Endpoint and credentials come from the environment alone, by the names that Amazon's own tools use.
    Buckets are addressed by path unless AWS_VIRTUAL_HOSTED_STYLE_REQUEST is true. Opening a store asks the
    service nothing. Threads may share a store. A process that was forked after any store was used cannot use
    stores at all: obstore's threads are missing there, and calls never return.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        read_only: bool = False,
        request: timedelta = REQUEST,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        """`bucket` and `prefix` are as `parse_s3_url` returns them. Raises ConfigurationError if the
        environment's settings cannot be used."""
        self._place = f"s3://{bucket}/{prefix}".rstrip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._read_only = read_only
        self._pauses = pauses
        self._objects = connected(bucket, request)
        self._takes_condition = True

    def put(self, images: Mapping[Image, bytes]) -> set[Image]:
        self._expect_writable()
        if len(images) == 1:
            return {image for image, body in images.items() if self._put(image, body)}
        has_failed = Event()

        def put_unless_failed(image: Image, body: bytes) -> bool:
            # If the service is away, each image would be tried for as long as the first one.
            if has_failed.is_set():
                return False
            try:
                return self._put(image, body)
            except BaseException:
                has_failed.set()
                raise

        with ThreadPoolExecutor(_PUTS_AT_ONCE, "store-put") as threads:
            news = list(threads.map(put_unless_failed, images.keys(), images.values()))
        return {image for image, is_new in zip(images, news, strict=True) if is_new}

    def _put(self, image: Image, body: bytes) -> bool:
        """Keeps the bytes of one image. Returns whether they were not there before."""
        expect_bytes_of(image, body)
        name = _key(image.file_name)
        found = self._ask(name, lambda: self._put_once(name, image, body))
        if found is not None and found != image.size:
            raise StoreError(
                f"image {self._place}/{name} has {found} bytes instead of {image.size}; nothing was"
                " overwritten and nothing recorded was lost; delete that object and run again"
            )
        return found is None

    def mend(self, image: Image, body: bytes) -> bool:
        self._expect_writable()
        expect_bytes_of(image, body)
        if is_whole(self, image):
            return False
        name = _key(image.file_name)
        self._ask(name, lambda: self._write(name, image, body, "overwrite"))
        return True

    def named(self, name: str) -> bytes:
        expect_image_name(name)
        key = _key(name)
        body = self._ask(key, lambda: bytes(obstore.get(self._objects, self._prefix + key).bytes()))
        expect_intact(f"{self._place}/{key}", name, body)
        return body

    def held(self) -> Iterator[HeldImage]:
        # One folder after the other, so that a part that fails can be asked for again.
        for number in range(256):
            folder = f"{number:02x}"
            yield from self._ask(f"{folder}/", lambda: self._held_in(folder))  # noqa: B023 - at once

    def remove(self, names: Sequence[str]) -> None:
        self._expect_writable()
        for name in names:
            expect_image_name(name)
        keys = [self._prefix + _key(name) for name in names]
        if keys:
            self._ask(_key(names[0]), lambda: obstore.delete(self._objects, keys))

    def _expect_writable(self) -> None:
        if self._read_only:
            raise StoreError(f"the store {self._place} was opened to be read only; nothing was written")

    def _put_once(self, name: str, image: Image, body: bytes) -> int | None:
        """Puts the image, in one attempt. Returns the size of the object that was already there, or None if
        there was none."""
        if not self._takes_condition:
            found = self._size(name)
            if found is None:
                self._write(name, image, body, "overwrite")
            return found
        try:
            self._write(name, image, body, "create")
        except AlreadyExistsError:
            # obstore also raises this for 409: another writer is putting the object, and may yet fail.
            found = self._size(name)
            if found is None:
                raise
            return found
        except BaseError as error:
            if not Refusal.of(error).of_condition:
                raise
            self._takes_condition = False
            return self._put_once(name, image, body)
        return None

    def _write(self, name: str, image: Image, body: bytes, mode: Literal["create", "overwrite"]) -> None:
        obstore.put(
            self._objects,
            self._prefix + name,
            body,
            mode=mode,
            attributes={
                "Content-Type": _CONTENT_TYPES[image.extension],
                "Cache-Control": _CACHE_CONTROL,
            },
            # Several requests would not be whole or nothing.
            use_multipart=False,
        )

    def _size(self, name: str) -> int | None:
        try:
            return obstore.head(self._objects, self._prefix + name)["size"]
        except FileNotFoundError:
            return None

    def _held_in(self, folder: str) -> list[HeldImage]:
        found = obstore.list(self._objects, f"{self._prefix}{folder}").collect()
        held = (
            HeldImage(one["path"].rpartition("/")[2], one["size"], one["last_modified"].timestamp())
            for one in found
        )
        return [one for one in held if is_image_name(one.name) and one.name.startswith(folder)]

    def _ask(self, name: str, attempt: Callable[[], _Answer]) -> _Answer:
        """Returns what the attempt returns. Repeats it after errors that may pass. Raises MissingImageError
        and StoreError.

        Neither error has obstore's error as its cause, because that quotes the service's answer and the
        endpoint, which may hold secrets.
        """
        pauses = iter(self._pauses)
        while True:
            try:
                return attempt()
            except _FAILURES as error:
                refusal = Refusal.of(error)
            pause = next(pauses, None)
            if pause is None or not refusal.passing:
                break
            time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - no secret
        if refusal.missing:
            raise MissingImageError(f"image {self._place}/{name} is missing: restore it from a backup")
        raise StoreError(f"the store {self._place}: {refusal.line()}")


def parse_s3_url(text: str, what: str = "TILE_STORE") -> tuple[str, str]:
    """Returns bucket and prefix of `s3://bucket/some/prefix`. The prefix may be empty, and has no slash at
    its end.

    Raises ConfigurationError for any other text. Its message names the setting, `what`, and does not repeat
    the text, which may hold a password.
    """
    bucket, _, prefix = text.removeprefix("s3://").partition("/")
    prefix = prefix.removesuffix("/")
    if not text.startswith("s3://") or "@" in text or "?" in text:
        wrong = "is not an address on S3, which has no credentials and no options"
    elif not _BUCKET.fullmatch(bucket) or ".." in bucket:
        wrong = "has no possible bucket, which is 3 to 63 lower-case letters, digits, dots and hyphens"
    elif prefix and not all(_FOLDER.fullmatch(folder) for folder in prefix.split("/")):
        wrong = "has a prefix with other signs than letters, digits and . _ = - between its slashes"
    else:
        return bucket, prefix
    raise ConfigurationError(f"{what} {wrong}: {_EXAMPLE}")


def _key(name: str) -> str:
    return f"{name[:2]}/{name}"


def connected(bucket: str, request: timedelta, *, retries: int = 0) -> obstore.store.S3Store:
    """Returns a client for the bucket, with the settings of the environment. It asks the service nothing yet.

    `retries` is how often obstore itself repeats a request. That is good enough for reading only: obstore
    does not repeat a put that was not answered, and it repeats 501 and 507. Raises ConfigurationError for
    settings that cannot be used. The message does not repeat their values.
    """
    allows_http = os.environ.get("AWS_ALLOW_HTTP", "").strip().lower() in {"1", "true", "on", "yes", "y"}
    for name in _ENDPOINTS:
        if name in os.environ:
            _expect_endpoint(name, os.environ[name], allows_http=allows_http)
    for name in _SENT:
        if not _is_sendable(os.environ.get(name, "")):
            raise ConfigurationError(
                f"{name} holds a blank, a line's end or another sign that cannot be sent: write it again"
            )
    if sum(name in os.environ for name in _KEY) == 1:
        raise ConfigurationError(f"only one of {' and '.join(_KEY)} is set: set both, or none")
    # The service compares the checksum with the bytes that arrived, and keeps it.
    config: S3Config = {} if "AWS_CHECKSUM_ALGORITHM" in os.environ else {"checksum_algorithm": "SHA256"}
    # Given any options, obstore does not read `allow_http` itself.
    options: ClientConfig = {"connect_timeout": CONNECTING, "timeout": request, "allow_http": allows_http}
    # Our error is raised outside of the block. Inside it would have obstore's error, which quotes values, as
    # its context.
    with suppress(BaseError, ValueError):
        return obstore.store.S3Store(
            bucket, config=config, client_options=options, retry_config={"max_retries": retries}
        )
    raise ConfigurationError(
        "an AWS_... variable in the environment has a value that cannot be; correct or unset it"
    )


def _expect_endpoint(name: str, address: str, *, allows_http: bool) -> None:
    with suppress(ValueError):
        parts = urlsplit(address if _is_sendable(address) else "")
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            if parts.username is not None or parts.query:
                raise ConfigurationError(
                    f"{name} takes no credentials: write them into AWS_ACCESS_KEY_ID and"
                    " AWS_SECRET_ACCESS_KEY"
                )
            if parts.scheme == "http" and not allows_http:
                raise ConfigurationError(
                    f"{name} begins with http://, so everybody on the way could read along: write https://,"
                    " or set AWS_ALLOW_HTTP=true"
                )
            return
    raise ConfigurationError(f"{name} is not an address: write for example {name}=https://s3.example.net")


def _is_sendable(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value
