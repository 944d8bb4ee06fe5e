"""Windows of the browser: their options, and what their pages must not do."""

import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Request, WebError

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
_HARMLESS: Final = (
    # What the page itself broke off, or was left in the middle of, by a test that opens another address just
    # when the page looks for new harvests. What a server refuses has other words.
    r"net::ERR_ABORTED$",
    # Chromium fetches a tab's icon when it has time for it, which may be when the test's server has stopped.
    r"page/icon\.svg",
)


@dataclass  # Without slots: Playwright marks the objects whose methods listen to it.
class Watch:
    """What the pages of a test did that nobody sees.

    A test that provokes errors appends patterns of them to `expected`.
    """

    errors: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def follow(self, context: BrowserContext) -> None:
        """Record what the context's pages do from now on."""
        context.on("console", self._heard)
        context.on("weberror", self._thrown)
        context.on("request", self._asked)
        context.on("requestfailed", self._refused)

    def wrong(self) -> list[str]:
        """What no page should do, a line each: errors that are not expected, and requests to other hosts."""
        patterns = (*self.expected, *_HARMLESS)
        return [line for line in self.errors if not any(re.search(each, line) for each in patterns)]

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"error on the console: {message.text} ({message.location.get('url', '')})")

    def _thrown(self, error: WebError) -> None:
        self.errors.append(f"error in the page: {error.error.stack or error.error}")

    def _asked(self, request: Request) -> None:
        if not is_own(request.url):
            self.errors.append(f"asked another host: {request.url}")

    def _refused(self, request: Request) -> None:
        self.errors.append(f"{request.method} {request.url}: {request.failure}")


def is_own(url: str) -> bool:
    """Whether an address lies on this machine: its test servers, the page (data:, blob:), or the disk."""
    parts = urlsplit(url)
    return parts.scheme in {"about", "blob", "data", "file"} or parts.hostname == OWN_HOST


def context(browser: Browser, **options: Any) -> BrowserContext:
    """A context that remembers nothing, with `USUAL` options where there are no others."""
    made = browser.new_context(**{**USUAL, **options})
    made.set_default_timeout(PATIENCE)
    return made
