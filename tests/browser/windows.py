"""Windows of the browser: what their pages must not do, and pictures of them when a test fails."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import Error

from tests.browser.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

REPORT: Final = pytest.StashKey[pytest.TestReport]()
"""How the test went, in the stash of its item; nothing as long as it runs."""
PATIENCE: Final = 60_000
"""Milliseconds that an expectation or an action waits, far below a test's time limit."""
DESK: Final[dict[str, Any]] = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"}
USUAL: Final[dict[str, Any]] = {
    "locale": "en-GB",
    # Nothing fades or glides, which a test would have to wait for.
    "reduced_motion": "reduce",
}


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
