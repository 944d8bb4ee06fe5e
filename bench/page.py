"""The page's speed in Chromium: what opening costs, and how long a step in time takes until it is seen.

Both are measured on a loopback and over a network that Chromium makes up, of 40 ms for each request and
10 Mbit/s. A step leads to a day that the page has never asked about.
"""

from __future__ import annotations

import statistics
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import sync_playwright

from bench.long_history import MAP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from playwright.sync_api import Browser

CHROMIUM: Final = Path("/usr/bin/chromium-headless-shell")
STEPS: Final = 20
_FAR: Final = {"offline": False, "latency": 40, "downloadThroughput": 10e6 / 8, "uploadThroughput": 10e6 / 8}
_EPOCH: Final = 719_163
"""The ordinal of 1970-01-01. The page's slider counts days from there."""

_FILLED: Final = """() => !document.body.classList.contains("waiting")
  && document.querySelectorAll("#map .picture img").length > 0
  && document.getElementById("map").getAttribute("aria-busy") === "false\""""
_OPENED: Final = """() => {
  const isPage = ({ name }) => name.includes("/page/") || name.split("#")[0].endsWith("/");
  const every = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  const loaded = every.filter(isPage);
  const bytes = loaded.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0);
  const paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
  return [bytes, loaded.length, paint, performance.now()];
}"""
_JUMP: Final = """(value) => {
  const slider = document.getElementById("slider");
  slider.value = value;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  return new Promise((done, failed) => {
    const began = performance.now();
    const look = () => {
      const shown = Date.parse(`${document.getElementById("day").textContent} UTC`) / 86400000;
      if (shown === value) done(performance.now() - began);
      else if (performance.now() - began > 60000) failed(new Error(`day ${value} is not shown`));
      else requestAnimationFrame(look);
    };
    look();
  });
}"""


def measure(address: str, days: Sequence[date]) -> list[dict[str, Any]]:
    """Opens the viewer at this address and jumps through its days, near and far."""
    arguments = ["--no-sandbox", "--disable-gpu"]
    with (
        sync_playwright() as playwright,
        closing(playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)) as browser,
    ):
        return [_measured(browser, address, days, is_far=is_far) for is_far in (False, True)]


def _measured(browser: Browser, address: str, days: Sequence[date], *, is_far: bool) -> dict[str, Any]:
    with closing(browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")) as context:
        opened = context.new_page()
        if is_far:
            context.new_cdp_session(opened).send("Network.emulateNetworkConditions", _FAR)
        opened.goto(f"{address}#map={MAP}&zoom=0&x=0&z=0&day={days[-1]}")
        opened.wait_for_function(_FILLED)
        size, requests, paint, pictures = opened.evaluate(_OPENED)
        milliseconds = []
        for day in Random(1).sample(days[:-1], STEPS):  # noqa: S311 - the same days each time
            milliseconds.append(opened.evaluate(_JUMP, day.toordinal() - _EPOCH))
            opened.wait_for_function(_FILLED)
    return {
        "network": "40 ms, 10 Mbit/s" if is_far else "loopback",
        "page kB": size / 1000,
        "requests": requests,
        "first paint ms": paint,
        "pictures ms": pictures,
        "jump, p50 ms": statistics.median(milliseconds),
        "jump, most ms": max(milliseconds),
    }
