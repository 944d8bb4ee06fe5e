"""A real browser, that can reach nothing but this machine: Debian's Chromium, led by Playwright."""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from tests.browser.screen import Screen
from tests.browser.viewed_maps import (
    PublishedDays,
    Viewer,
    serving,
    viewed_project,
    viewing,
    world_with_an_area,
)
from tests.browser.windows import DESK, PATIENCE, PHONE, Watch, context
from tests.end_to_end.real_maps import harvested_antworld
from tests.servers.nginx import nginx

CHROMIUM: Final = Path("/usr/bin/chromium-headless-shell")
"""Chromium without the windows of a desktop. It needs two thirds of the processor's time."""
PAGE_FOLDER: Final = Path(__file__).resolve().parents[2] / "tileharvest" / "viewer" / "page"
REPORT: Final = pytest.StashKey[bool]()
"""Whether the test failed, in the stash of its item."""
_ARGUMENTS: Final = (
    "--no-sandbox",  # Tests in containers run as root.
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Whatever a page or the browser itself asks for elsewhere is refused on this machine.
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One for all modules that follow each other: what it remembers is in contexts, of which each window has
    its own.

    It is closed before tests elsewhere begin. While it is open, Playwright's event loop counts as running in
    this thread, and tests that start one of their own would fail.
    """
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} is missing: `make test` installs Debian's package {CHROMIUM.name}")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def watch() -> Watch:
    """What the test's pages did that nobody sees."""
    return Watch()


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest, browser: Browser, watch: Watch, tmp_path: Path
) -> Iterator[Callable[..., Page]]:
    """Open a page with nothing remembered: `open_page(color_scheme="dark", locale="zh-CN", ...)`.

    The options are those of Playwright's `new_context`. When the test ends it fails if a page logged an
    error or asked another host; after any failure there is a picture of each page.
    """
    pages: list[Page] = []

    def open_page(**options: Any) -> Page:
        opened = contexts.enter_context(context(browser, **options))
        watch.follow(opened)
        pages.append(opened.new_page())
        return pages[-1]

    with ExitStack() as contexts:
        yield open_page
        if watch.wrong() or request.node.stash.get(REPORT, None):
            for number, page in enumerate(pages):
                with suppress(Error):
                    page.screenshot(path=tmp_path / f"page-{number}.png")
            request.node.add_report_section("teardown", "browser", f"pictures of the pages are in {tmp_path}")
    # After the contexts are closed nothing more can be said.
    if wrong := watch.wrong():
        pytest.fail("the page did what it must not:\n  " + "\n  ".join(wrong), pytrace=False)


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """An empty page of 1280 x 800 pixels, in English, in light colours."""
    return open_page(**DESK)


@pytest.fixture(scope="session")
def published_days(shared_maps: Path, common_folder: Path) -> PublishedDays:
    """What was published of antworld on each day."""
    return PublishedDays(harvested_antworld(shared_maps, common_folder))


@pytest.fixture(scope="session")
def viewer(shared_maps: Path, common_folder: Path) -> Iterator[Viewer]:
    """`scrapy serve` over real maps that were harvested on some days."""
    with serving(viewed_project(shared_maps, common_folder)) as viewer:
        yield viewer


@pytest.fixture(scope="session")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """The viewer of a map with a named area."""
    with viewing(world_with_an_area(tmp_path_factory.mktemp("named"))) as viewer:
        yield viewer


@pytest.fixture
def new_screen(open_page: Callable[..., Page], viewer: Viewer) -> Callable[..., Screen]:
    """The viewer in a window with nothing remembered: `new_screen(color_scheme="dark", locale="zh-CN")`."""
    return lambda **options: Screen(open_page(**{**DESK, **options}), viewer)


@pytest.fixture
def screen(new_screen: Callable[..., Screen]) -> Screen:
    """The viewer on a desk, not opened yet."""
    return new_screen()


@pytest.fixture(params=[{**DESK, "color_scheme": "dark"}, PHONE], ids=["desk", "phone"])
def each_screen(request: pytest.FixtureRequest, new_screen: Callable[..., Screen]) -> Screen:
    """The viewer on a desk and on a telephone, not opened yet."""
    return new_screen(**request.param)


@pytest.fixture
def phone(new_screen: Callable[..., Screen]) -> Screen:
    """The viewer on a telephone, not opened yet."""
    return new_screen(**PHONE)


@pytest.fixture(scope="module")
def page_files() -> Iterator[str]:
    """The address of a server that has the page's files and no data."""
    with nginx(PAGE_FOLDER) as server:
        yield server.url


@pytest.fixture(scope="module")
def module_page(browser: Browser, page_files: str) -> Iterator[Page]:
    """A document beside the page's files, from which its modules can be imported.

    It is shared by the tests of a module, which must not change it.
    """
    with context(browser) as opened:
        page = opened.new_page()
        page.goto(f"{page_files}/icon.svg")
        yield page


@pytest.fixture(scope="module")
def call(module_page: Page) -> Callable[[str, str, list[Any]], list[Any]]:
    """Call a module's function many times in one go: `call("grid.js", "tileName", [[tile], ...])`.

    Gives the results; a call that throws gives `{"thrown": "RangeError"}`.
    """

    def call(module: str, function: str, calls: list[Any]) -> list[Any]:
        results: list[Any] = module_page.evaluate(_CALLING, [f"/{module}", function, calls])
        return results

    return call


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know, when they end, whether the test failed."""
    report = yield
    if call.when == "call":
        item.stash[REPORT] = report.failed
    return report


Call: TypeAlias = "Callable[[str, str, list[Any]], list[Any]]"
"""Calls a function of a module many times, as the fixture `call` does."""

_CALLING: Final = """async ([module, name, calls]) => {
  const { [name]: called } = await import(module);
  return calls.map((parameters) => {
    try {
      return called(...parameters);
    } catch (error) {
      return { thrown: error.name };
    }
  });
}"""
