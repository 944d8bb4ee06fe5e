"""What all tests share: real servers, and the real maps beside the project."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.servers.misbehaving import misbehaving as misbehaving_server
from tests.servers.nginx import nginx as nginx_server
from tests.servers.postgresql import postgresql_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import Nginx
    from tests.servers.postgresql import PostgresqlServer

for _name in ("DATABASE_URL", "TILE_STORE", "REDIS_URL", "REDIS_HOST", "REDIS_PORT", "PROMETHEUS_PORT"):
    # What the developer's own harvests use is not for tests.
    os.environ.pop(_name, None)

# A slow machine is no failure; in CI the same examples are tried every time.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("tests")


@pytest.fixture(scope="session")
def shared_maps() -> Path:
    """The folder of real maps, with their versions; TILEHARVEST_SHARED_MAPS names another place."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "maps"
    folder = Path(os.environ.get("TILEHARVEST_SHARED_MAPS", beside))
    if not folder.is_dir():
        missing = f"the real maps are missing: no folder {folder} (TILEHARVEST_SHARED_MAPS names another)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return folder


@pytest.fixture
def nginx() -> Iterator[Callable[..., Nginx]]:
    """Start an nginx: `nginx(folder, server=..., location=...)`. All stop when the test ends."""
    with ExitStack() as servers:
        yield lambda folder, **directives: servers.enter_context(nginx_server(folder, **directives))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """One for all tests of the process, who use databases of their own; none may stop it."""
    with postgresql_server() as server:
        yield server


@pytest.fixture
def misbehaving() -> Iterator[Callable[[Path], Misbehaving]]:
    """Start a server that can misbehave: `misbehaving(folder)`. All stop when the test ends."""
    with ExitStack() as servers:
        yield lambda folder: servers.enter_context(misbehaving_server(folder))
