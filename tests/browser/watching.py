"""What a page did that nobody sees: errors, and requests to anywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Request, WebError

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
