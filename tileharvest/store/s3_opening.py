"""A client for one bucket, made of what the environment says."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import obstore.store
from obstore.exceptions import BaseError

from tileharvest.errors import ConfigurationError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_KEY: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_SENT: Final = (
    *_KEY,
    "AWS_SESSION_TOKEN",
    "AWS_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
)
"""Variables that become parts of requests; obstore panics at some signs that cannot be sent."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call to S3 goes on, in seconds.

    By default one that gets no answer ends after at most 45 s. The last attempt to put an image makes up
    to two requests if the first is answered late, and so ends after at most 60 s.
    """

    connecting: float = 5.0
    request: float = 15.0
    """For one request, from connecting to the answer's last byte: 1.8 MB at 1 Mbit/s."""
    pauses: tuple[float, ...] = (0.25, 1.0, 4.0, 10.0)
    """Before the second attempt, the third, ...; of each passes between half and all, by chance, so that
    many threads that were told to slow down do not come back together."""
    last_attempt: float = 30.0
    """No attempt begins later than this after the call."""


def connected(bucket: str, patience: Patience) -> obstore.store.S3Store:
    """Asks nothing yet. Raises ConfigurationError for settings that cannot be used, whose values it does
    not repeat."""
    for name in _ENDPOINTS:
        if name in os.environ:
            _expect_endpoint(name, os.environ[name])
    for name in _SENT:
        _expect_sendable(name, os.environ.get(name, ""))
    if sum(name in os.environ for name in _KEY) == 1:
        raise ConfigurationError(f"only one of {' and '.join(_KEY)} is set: set both, or none")
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=patience.connecting),
        "timeout": timedelta(seconds=patience.request),
        # Given any options, obstore does not read this one itself.
        "allow_http": _allows_http(),
    }
    # Raised outside of the block, the error has none of obstore's as its context: that quotes values.
    with suppress(BaseError, ValueError):
        return obstore.store.S3Store(
            bucket,
            config=_checksums(),
            client_options=options,
            # Its own retries would not repeat a put that was not answered, and would repeat 501 and 507.
            retry_config={"max_retries": 0},
        )
    raise ConfigurationError(
        "an AWS_... variable in the environment has a value that cannot be; correct or unset it"
    )


def _checksums() -> S3Config:
    """The service compares it with what arrived, keeps it, and can be asked for it."""
    return {} if "AWS_CHECKSUM_ALGORITHM" in os.environ else {"checksum_algorithm": "SHA256"}


def _allows_http() -> bool:
    return os.environ.get("AWS_ALLOW_HTTP", "").strip().lower() in {"1", "true", "on", "yes", "y"}


def _expect_endpoint(name: str, address: str) -> None:
    try:
        parts = urlsplit(address if _sendable(address) else "")
        possible = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        possible = False
        parts = urlsplit("")
    if not possible:
        raise ConfigurationError(f"{name} is no address: write for example {name}=https://s3.example.net")
    if parts.username is not None or parts.query:
        raise ConfigurationError(
            f"{name} takes no credentials: write them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if parts.scheme == "http" and not _allows_http():
        raise ConfigurationError(
            f"{name} begins with http://, so everybody on the way could read along: write https://, or set"
            " AWS_ALLOW_HTTP=true"
        )


def _expect_sendable(name: str, value: str) -> None:
    if not _sendable(value):
        raise ConfigurationError(
            f"{name} holds a blank, a line's end or another sign that cannot be sent: write it again"
        )


def _sendable(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value
