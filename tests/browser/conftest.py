"""A real browser, that can reach nothing but this machine: Debian's Chromium, led by Playwright."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.browser.screen import DESK, PATIENCE, PHONE, Screen
from tests.browser.viewed_maps import PublishedDays, viewed_project, world_with_an_area
from tests.end_to_end.real_maps import harvested_antworld
from tests.servers.nginx import nginx
from tests.viewer.asking import serving

CHROMIUM: Final = Path("/usr/bin/chromium-headless-shell")
"""Chromium without the windows of a desktop. It needs two thirds of the processor's time."""
PAGE_FOLDER: Final = Path(__file__).resolve().parents[2] / "tileharvest" / "viewer" / "page"
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
_HARMLESS: Final = (
    # What the page itself broke off, or was left in the middle of, by a test that opens another address just
    # when the page looks for new harvests. What a server refuses has other words.
    r"net::ERR_ABORTED$",
    # Chromium fetches a tab's icon when it has time for it, which may be when the test's server has stopped.
    r"page/icon\.svg",
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


def context(browser: Browser, **options: Any) -> BrowserContext:
    """A context that remembers nothing, and in which nothing glides: a test would have to wait for it."""
    made = browser.new_context(**{"locale": "en-GB", "reduced_motion": "reduce", **options})
    made.set_default_timeout(PATIENCE)
    return made


@pytest.fixture
def provoked() -> list[str]:
    """Patterns of the errors that the test provokes in its pages."""
    return []


@pytest.fixture
def open_page(browser: Browser, provoked: list[str]) -> Iterator[Callable[..., Page]]:
    """Open a page with nothing remembered: `open_page(color_scheme="dark", locale="zh-CN", ...)`.

    The options are those of Playwright's `new_context`. When the test ends it fails if a page logged an
    error, or if something could not be loaded, such as all that lies on another host.
    """
    wrong: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            wrong.append(f"error on the console: {message.text} ({message.location.get('url', '')})")

    def open_page(**options: Any) -> Page:
        opened = contexts.enter_context(context(browser, **options))
        opened.on("console", hear)
        opened.on("weberror", lambda error: wrong.append(str(error.error.stack or error.error)))
        opened.on("requestfailed", lambda request: wrong.append(f"{request.url}: {request.failure}"))
        return opened.new_page()

    with ExitStack() as contexts:
        yield open_page
    # After the contexts are closed nothing more can be said.
    patterns = (*provoked, *_HARMLESS)
    said = [line for line in wrong if not any(re.search(each, line) for each in patterns)]
    if said:
        pytest.fail("the page did what it must not:\n  " + "\n  ".join(said), pytrace=False)


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """An empty page of 1280 x 800 pixels, in English, in light colours."""
    return open_page(**DESK)


@pytest.fixture(scope="session")
def published_days(shared_maps: Path, common_folder: Path) -> PublishedDays:
    """What was published of antworld on each day."""
    return PublishedDays(harvested_antworld(shared_maps, common_folder))


@pytest.fixture(scope="package")
def viewer(shared_maps: Path, common_folder: Path) -> Iterator[str]:
    """The address of the viewer of real maps that were harvested on some days."""
    with serving(viewed_project(shared_maps, common_folder)) as client:
        yield client.url


@pytest.fixture(scope="package")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the viewer of a map with a named area."""
    with serving(world_with_an_area(tmp_path_factory.mktemp("named"))) as client:
        yield client.url


@pytest.fixture
def new_screen(open_page: Callable[..., Page], viewer: str) -> Callable[..., Screen]:
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


@pytest.fixture(scope="module")
def module_page(browser: Browser) -> Iterator[Page]:
    """A document beside the page's files, from which its modules can be imported.

    It is shared by the tests of a module, which must not change it.
    """
    with nginx(PAGE_FOLDER) as server, context(browser) as opened:
        page = opened.new_page()
        page.goto(f"{server.url}/icon.svg")
        yield page


@pytest.fixture(scope="module")
def call(module_page: Page) -> Callable[[str, str, list[Any]], list[Any]]:
    """Call a module's function many times in one go: `call("grid.js", "tileName", [[tile], ...])`."""
    calling = """async ([module, name, calls]) => {
      const { [name]: called } = await import(module);
      return calls.map((parameters) => called(...parameters));
    }"""
    return lambda module, function, calls: module_page.evaluate(calling, [f"/{module}", function, calls])


Call: TypeAlias = "Callable[[str, str, list[Any]], list[Any]]"
"""Calls a function of a module many times, as the fixture `call` does."""
