"""A store on S3, or on a service that speaks as S3 does: `<prefix>/ab/<sha1>.png` in one bucket."""

from __future__ import annotations

import random
import re
import time
from typing import TYPE_CHECKING, Final, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from tileharvest.errors import ConfigurationError, StoreError
from tileharvest.store.port import MissingImageError, expect_bytes_of, expect_image_name, sha1_of
from tileharvest.store.s3_failures import Refusal
from tileharvest.store.s3_opening import Patience, connected

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from tileharvest.tiles.versions import Image

_EXAMPLE: Final = "write for example s3://my-bucket/tiles"
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_FOLDER: Final = re.compile(r"(?!\.\.?$)[A-Za-z0-9._=-]+", re.ASCII)
"""A part of a prefix. Of what S3 allows only what no client, proxy or shell writes in two ways."""

_CONTENT_TYPES: Final = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}
_CACHE_CONTROL: Final = "max-age=31536000, immutable"
"""What has this name never changes. A year is the longest time that caches take seriously."""

_MOST_REMEMBERED: Final = 65_536
"""Images that are known to be there; about 8 MB of names."""


_Answer = TypeVar("_Answer")


class S3Store:
    """A `TileStore` in a bucket, which must exist.

    S3 keeps an object whole or not at all, and answers when it is durable. Objects are put under the
    condition that there is none of that name, so that nothing is ever overwritten. A service that refuses
    the condition is asked first whether the object is there: then two writers at the same moment may both
    put it, with the same bytes, and both are told that it is new. So it is with a service that overlooks
    the condition, for each put.

    An object of the wrong size is somebody else's doing. It is reported, not replaced.

    What may pass is tried again, as `Patience` says. If an answer that was lost said that the image is now
    kept, it counts as not new.

    Endpoint and credentials come from the environment, in the names that Amazon's own tools use, and from
    nowhere else. Buckets are addressed by path unless AWS_VIRTUAL_HOSTED_STYLE_REQUEST is true. Opening
    asks the service nothing. Threads may share a store. Processes that are forked off once a store was used
    cannot use any, not even one of their own: obstore's threads are not there, and calls never return.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        read_only: bool = False,
        patience: Patience = Patience(),  # noqa: B008 - a frozen value
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Bucket and prefix as `parse_s3_url` gives them. `clock` and `sleep` are in seconds.

        Raises ConfigurationError when the environment's settings cannot be used.
        """
        self._place = f"s3://{bucket}/{prefix}".rstrip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._read_only = read_only
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._objects = connected(bucket, patience)
        self._takes_condition = True
        self._known: set[str] = set()

    def put(self, image: Image, body: bytes) -> bool:
        if self._read_only:
            raise StoreError(f"the store {self._place} was opened to be read only; nothing was written")
        expect_bytes_of(image, body)
        name = _name(image.sha1, image.extension)
        found = self._ask(name, lambda: self._put(name, image, body))
        if found is not None and found != image.size:
            raise StoreError(
                f"{self._wrong_size(name, found, image.size)}; nothing was overwritten and nothing recorded"
                " was lost; delete that object and run again"
            )
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known.add(name)
        return found is None

    def get(self, image: Image) -> bytes:
        name = _name(image.sha1, image.extension)
        body = self._body(name)
        if len(body) != image.size:
            raise StoreError(f"{self._wrong_size(name, len(body), image.size)}: restore it from a backup")
        return body

    def named(self, sha1: str, extension: str) -> bytes:
        expect_image_name(sha1, extension)
        name = _name(sha1, extension)
        body = self._body(name)
        found = sha1_of(body)
        if found != sha1:
            raise StoreError(
                f"image {self._place}/{name} is damaged, its sha1 is {found}: restore it from a backup"
            )
        return body

    def __contains__(self, image: Image) -> bool:
        name = _name(image.sha1, image.extension)
        try:
            return self._ask(name, lambda: self._size_in_bucket(name)) == image.size
        except MissingImageError:
            return False

    # ------------------------------------------------------------------ one attempt, errors as they come

    def _put(self, name: str, image: Image, body: bytes) -> int | None:
        """The size of the object that was there; None if there was none."""
        if name in self._known or not self._takes_condition:
            # Most images that are put again are put often: asking costs less than sending them.
            found = self._size(name)
            if found is not None:
                return found
        if not self._takes_condition:
            self._write(name, image, body, "overwrite")
            return None
        try:
            self._write(name, image, body, "create")
        except AlreadyExistsError:
            # Also raised for 409: another writer is at it, and may yet come to nothing.
            found = self._size(name)
            if found is None:
                raise
            return found
        except BaseError as error:
            if not Refusal.of(error).of_condition:
                raise
            self._takes_condition = False
            return self._put(name, image, body)
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

    def _size_in_bucket(self, name: str) -> int:
        """Raises FileNotFoundError, and it says what is missing: answers to HEAD cannot, having no body."""
        size = self._size(name)
        return obstore.get(self._objects, self._prefix + name).meta["size"] if size is None else size

    # ------------------------------------------------------------------------------- as many as it takes

    def _body(self, name: str) -> bytes:
        return self._ask(name, lambda: bytes(obstore.get(self._objects, self._prefix + name).bytes()))

    def _ask(self, name: str, attempt: Callable[[], _Answer]) -> _Answer:
        """Raises MissingImageError and StoreError. Neither keeps obstore's error as its cause: that quotes
        the service's answer and the endpoint, which may hold what is nobody's business."""
        began = self._clock()
        pauses = iter(self._patience.pauses)
        while True:
            try:
                return attempt()
            except (BaseError, OSError, ValueError) as error:
                refusal = Refusal.of(error)
            pause = next(pauses, None) if refusal.passing else None
            if pause is None:
                break
            pause *= random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            if self._clock() + pause - began > self._patience.last_attempt:
                break
            self._sleep(pause)
        if refusal.missing:
            raise MissingImageError(f"image {self._place}/{name} is missing: restore it from a backup")
        raise StoreError(f"the store {self._place}: {refusal.line()}")

    def _wrong_size(self, name: str, found: int, expected: int) -> str:
        return f"image {self._place}/{name} has {found} bytes instead of {expected}"


def parse_s3_url(text: str) -> tuple[str, str]:
    """Bucket and prefix of `s3://bucket/some/prefix`; the prefix may be empty and has no slash at its ends.

    Raises ConfigurationError. It does not repeat the text, in which somebody may have put a password.
    """
    scheme, separator, rest = text.partition("://")
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.removesuffix("/")
    if scheme != "s3" or not separator:
        raise ConfigurationError(f"TILE_STORE is no address on S3: {_EXAMPLE}")
    if "@" in text or "?" in text:
        raise ConfigurationError(
            "TILE_STORE takes no credentials and no options, they belong in the environment, such as"
            f" AWS_ACCESS_KEY_ID: {_EXAMPLE}"
        )
    if not _BUCKET.fullmatch(bucket) or ".." in bucket:
        raise ConfigurationError(
            "the bucket in TILE_STORE has no possible name, which is 3 to 63 lower-case letters, digits,"
            f" dots and hyphens: {_EXAMPLE}"
        )
    if prefix and not all(_FOLDER.fullmatch(folder) for folder in prefix.split("/")):
        raise ConfigurationError(
            "the prefix in TILE_STORE may have only letters, digits and . _ = - between its slashes:"
            f" {_EXAMPLE}"
        )
    return bucket, prefix


def _name(sha1: str, extension: str) -> str:
    return f"{sha1[:2]}/{sha1}.{extension}"
