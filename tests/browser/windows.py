"""Windows of the browser: what their pages must not do, and pictures of them when a test fails."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, WebError

REPORT: Final = pytest.StashKey[pytest.TestReport]()
"""How the test went, in the stash of its item; nothing as long as it runs."""
PATIENCE: Final = 60_000
"""Milliseconds that an expectation or an action waits, far below a test's time limit."""
DESK: Final[dict[str, Any]] = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"}
PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 390, "height": 844},
    "screen": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
}
USUAL: Final[dict[str, Any]] = {
    "locale": "en-GB",
    # Nothing fades or glides, which a test would have to wait for.
    "reduced_motion": "reduce",
}
OWN_HOST: Final = "127.0.0.1"
_BROKEN_OFF: Final = re.compile(r"net::ERR_ABORTED$")
"""Chromium's word for what the page itself broke off, or was left in the middle of, by a test that opens
another address just when the page looks for new harvests. What a server refuses has other words."""
_LATE_ICON: Final = re.compile(r"net::ERR_CONNECTION_REFUSED \(\S+/page/icon\.svg:")
"""Chromium fetches a tab's icon when it has time for it, which may be when the test's server has stopped."""


@dataclass  # Without slots: Playwright marks the objects whose methods listen to it.
class Watch:
    """A record of all pages of a context, in the order of events.

    A test that provokes errors appends patterns of them to `expected`; each is searched for in the
    message. `failed_requests` is for tests to look at: a page may well abort a request of its own.
    """

    console_errors: list[str] = field(default_factory=list)
    page_errors: list[str] = field(default_factory=list)
    failed_requests: list[str] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def follow(self, context: BrowserContext) -> None:
        """Record what the context's pages do from now on."""
        context.on("console", self._heard)
        context.on("weberror", self._thrown)
        context.on("request", self._asked)
        context.on("requestfailed", self._refused)

    def wrong(self) -> list[str]:
        """What no page should do, a line each: errors that are not expected, and requests to other hosts."""
        errors = [
            message
            for message in self.console_errors + self.page_errors
            if not any(re.search(pattern, message) for pattern in (*self.expected, _LATE_ICON))
        ]
        return errors + [f"asked another host: {url}" for url in self.urls if not is_own(url)]

    def unanswered(self) -> list[str]:
        """The requests that failed, but for those that the page itself broke off, such as questions about
        what is in view when that has changed meanwhile."""
        return [each for each in self.failed_requests if not _BROKEN_OFF.search(each)]

    def clear(self) -> None:
        """Forget everything, for the next test."""
        for kept in (self.console_errors, self.page_errors, self.failed_requests, self.urls, self.expected):
            kept.clear()

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            place = message.location
            where = f"{place.get('url', '')}:{place.get('lineNumber', '')}"
            self.console_errors.append(f"error on the console: {message.text} ({where})")

    def _thrown(self, error: WebError) -> None:
        self.page_errors.append(f"error in the page: {error.error.stack or error.error}")

    def _asked(self, request: Request) -> None:
        self.urls.append(request.url)

    def _refused(self, request: Request) -> None:
        self.failed_requests.append(f"{request.method} {request.url}: {request.failure}")


def is_own(url: str) -> bool:
    """Whether an address lies on this machine: its test servers, the page (data:, blob:), or the disk."""
    parts = urlsplit(url)
    return parts.scheme in {"about", "blob", "data", "file"} or parts.hostname == OWN_HOST


@dataclass(frozen=True, slots=True)
class Window:
    """A page that tests use one after the other, each with a document of its own."""

    page: Page
    watch: Watch = field(default_factory=Watch)

    @contextmanager
    def lent_to(self, test: pytest.Item, places: pytest.TempPathFactory) -> Iterator[Page]:
        """Let a test have the page, which fails if the page then does what it must not.

        After a failure there is a picture of it.
        """
        self.page.mouse.move(0, 0)
        yield self.page
        if has_failed(test) or self.watch.wrong():
            take_pictures([self.page], places, test)
        unanswered = self.watch.unanswered()
        # What is under way must not be taken for the next test's.
        self.page.goto("about:blank")
        try:
            fail_if_wrong(self.watch)
            assert unanswered == [], unanswered
        finally:
            self.watch.clear()


@contextmanager
def window(browser: Browser, **options: Any) -> Iterator[Window]:
    """Open a window; the options are those of Playwright's `new_context`."""
    with context(browser, **options) as opened:
        one = Window(opened.new_page())
        one.watch.follow(opened)
        yield one
    fail_if_wrong(one.watch)


def context(browser: Browser, **options: Any) -> BrowserContext:
    """A context that remembers nothing, with `USUAL` options where there are no others."""
    made = browser.new_context(**{**USUAL, **options})
    made.set_default_timeout(PATIENCE)
    return made


def has_failed(test: pytest.Item) -> bool:
    report = test.stash.get(REPORT, None)
    return report is not None and report.failed


def fail_if_wrong(watch: Watch) -> None:
    wrong = watch.wrong()
    if wrong:
        pytest.fail("the page did what it must not:\n  " + "\n  ".join(wrong), pytrace=False)


def take_pictures(pages: list[Page], places: pytest.TempPathFactory, test: pytest.Item) -> None:
    """In a folder of their own: that of a test is kept only if it failed before its pages were looked at."""
    folder = places.mktemp("pictures")
    for number, page in enumerate(pages, start=1):
        path = folder / f"page-{number}.png"
        try:
            page.screenshot(path=path)
        except Error as error:
            test.add_report_section("teardown", "browser", f"no picture of page {number}: {error}")
        else:
            test.add_report_section("teardown", "browser", f"picture of page {number}: {path}")
