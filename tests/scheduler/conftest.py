"""A site and a data folder for crawls."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scheduler.crawling import Crawls
from tests.servers.nginx import Nginx


@pytest.fixture
def crawls(tmp_path: Path, nginx: Callable[..., Nginx]) -> Crawls:
    (tmp_path / "site").mkdir()
    return Crawls(tmp_path, nginx(tmp_path / "site", location="if ($uri = /moved) { return 302 /here; }"))
