"""An S3 for the tests of the store on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers.s3 import S3, lead_to
from tests.servers.s3 import s3 as s3_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def _s3() -> Iterator[S3]:
    with s3_server() as running:
        yield running


@pytest.fixture
def s3(_s3: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """With one empty bucket, `tiles`, and an environment that leads there."""
    _s3.start_over("tiles")
    lead_to(_s3.url, monkeypatch)
    return _s3
