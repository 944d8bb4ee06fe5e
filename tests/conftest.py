"""Fixtures for all tests: real servers, a user's project, and real maps with their harvests; the order of the
tests."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from tests.compiled import share_statements
from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import Harvested, harvested_antworld, harvested_small
from tests.servers.misbehaving import Misbehaving
from tests.servers.misbehaving import misbehaving as misbehaving_server
from tests.servers.nginx import Nginx
from tests.servers.nginx import nginx as nginx_server
from tests.servers.postgresql import PostgresqlServer, postgresql_server
from tests.servers.redis import RedisServer, redis_server
from tests.servers.s3 import S3, lead_to
from tests.servers.s3 import s3 as s3_server
from tileharvest.harvest.holdings import close_histories

for _name in (
    *(
        "DATABASE_URL",
        "TILE_STORE",
        "REDIS_URL",
        "REDIS_HOST",
        "REDIS_PORT",
        "PROMETHEUS_PORT",
        "PROMETHEUS_HOST",
    ),
    *("TILEHARVEST_MAPS", "TILEHARVEST_DATA", "TILEHARVEST_CONTACT", "TILEHARVEST_VIEWER", "SCRAPY_PROJECT"),
    *("FORCE_COLOR", "NO_COLOR", "COLUMNS", "http_proxy", "https_proxy", "all_proxy"),
):
    # What the developer's own harvests and terminal use is not for tests.
    os.environ.pop(_name, None)

# The processes of pytest and hundreds of programs would each compile anew what they load, for seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_MEMORY = Path("/dev/shm")
"""Linux keeps this folder in memory. On a disk each write that must be durable takes milliseconds, and the
tests make tens of thousands of them."""
if (
    "TMPDIR" not in os.environ
    and _MEMORY.is_dir()
    # Several times what all tests write. Some write programs, and run them.
    and shutil.disk_usage(_MEMORY).free > 4_000_000_000
    and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
):
    # Python has looked once where it may write, and keeps what it found.
    tempfile.tempdir = os.environ["TMPDIR"] = str(_MEMORY)

share_statements()

_FIRST = ("fleet", "browser", "crash", "package", "end_to_end")
"""The folders that take longest."""
_WHOLE = ("tests/fleet/", "tests/browser/", "tests/package/", "tests/demo/")
"""Folders whose tests all run in one process. Workers of two fleets would be in each other's way. The maps
that the browser looks at, the wheel and the demo's world would be made twice."""

# A slow machine is not a failure; in CI the same examples are tried every time.
_ANY_MACHINE = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile(
    "tests", _ANY_MACHINE, derandomize=bool(os.environ.get("CI")), max_examples=40
)
hypothesis.settings.register_profile("all", _ANY_MACHINE, max_examples=1000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all", action="store_true", help="try all faults, kills and maps, not a few: takes hours"
    )


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("all" if config.getoption("--all") else "tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out repetitions, unless `--all` asks for them. Then made-up input may take as long as it does.
    Puts the long files first: the last files to be handed out are short, and no process is left alone with a
    long one at the end."""
    if not config.getoption("--all"):
        repetitions = [item for item in items if item.get_closest_marker("repetition")]
        config.hook.pytest_deselected(items=repetitions)
        items[:] = [item for item in items if item not in repetitions]
    for item in items:
        if config.getoption("--all") and item.path.name.startswith("test_fuzzed"):
            # A thousand times as many examples take hours.
            item.add_marker(pytest.mark.timeout(0))
    tests = Path(__file__).parent
    places = {folder: place for place, folder in enumerate(_FIRST)}

    @cache
    def place(file: Path) -> tuple[int, tuple[str, ...]]:
        parts = file.relative_to(tests).parts
        return places.get(parts[0], len(places)), parts

    items.sort(key=lambda item: place(item.path))


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each file to one process, so that no server of a module is started twice, and some whole
    folders."""

    def _split_scope(self, nodeid: str) -> str:
        scope = str(super()._split_scope(nodeid))
        return next((folder for folder in _WHOLE if scope.startswith(folder)), scope)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    """Returns our scheduling, or None if the command line names another one."""
    if config.option.dist != "load":
        return None
    config.option.loadscopereorder = False
    return FileScheduling(config, log)


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


@pytest.fixture(scope="session")
def kills(request: pytest.FixtureRequest) -> int:
    """How often a test kills a program if each kill is like the one before."""
    return 20 if request.config.getoption("--all") else 4


@pytest.fixture(scope="session")
def common_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of pytest share, for what one of them makes for all."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(autouse=True)
def _histories() -> Iterator[None]:
    """Closes the histories of the test's harvests."""
    yield
    close_histories()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A user's project without maps and without data."""
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)


@pytest.fixture(scope="session")
def antworld(shared_maps: Path, common_folder: Path) -> list[Harvested]:
    """The four versions of a real map, harvested in turn. Read only: copy `data` to go on from there."""
    return harvested_antworld(shared_maps, common_folder)


@pytest.fixture(scope="session")
def small_history(shared_maps: Path, common_folder: Path) -> Path:
    """The data folder of the small map, harvested once. Read only: `project.adopt` copies it."""
    return harvested_small(shared_maps, common_folder)


@pytest.fixture
def nginx() -> Iterator[Callable[..., Nginx]]:
    """A function that starts an nginx: `nginx(folder, server=..., location=...)`. All stop when the test
    ends."""
    with ExitStack() as servers:
        yield lambda folder, **directives: servers.enter_context(nginx_server(folder, **directives))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A server for all tests of the process. Each test uses a database of its own, and none may stop the
    server."""
    with postgresql_server() as server:
        yield server


@pytest.fixture(scope="session")
def _redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def redis(_redis: RedisServer) -> RedisServer:
    """A Redis with nothing in it."""
    _redis.ask("FLUSHALL")
    return _redis


@pytest.fixture(scope="session")
def _s3() -> Iterator[S3]:
    with s3_server() as running:
        yield running


@pytest.fixture
def s3(_s3: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """An S3 with one empty bucket, `tiles`, and an environment that leads there."""
    _s3.start_over("tiles")
    lead_to(_s3.url, monkeypatch)
    return _s3


@pytest.fixture
def misbehaving() -> Iterator[Callable[[Path], Misbehaving]]:
    """A function that starts a server that can misbehave: `misbehaving(folder)`. All stop when the test
    ends."""
    with ExitStack() as servers:
        yield lambda folder: servers.enter_context(misbehaving_server(folder))
