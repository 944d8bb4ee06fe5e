"""The page's speed in Chromium: how long a step in time takes until it is seen, and what opening costs.

A person's steps come a second apart, so that the page has looked ahead: they are *cached*. A jump leads to a
day that the page has never asked about, and all that the browser has kept is taken from it before: it is
*not cached*, which is checked for each picture. Both are measured on a loopback and over a network that
Chromium makes up: 40 ms for each request, and 10 Mbit/s.

Chromium is not held to one core, as no computer with a browser has only one. It decodes pictures, draws, and
looks for garbage beside the page's main thread. On one core the latter took 50 to 75 ms of some jumps.
"""

from __future__ import annotations

import re
import statistics
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import sync_playwright

from bench.cost import RunFailedError
from bench.viewed_history import MAP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from playwright.sync_api import Browser, CDPSession, Page

CHROMIUM: Final = Path("/usr/bin/chromium-headless-shell")
STEPS: Final = 60
PAUSE: Final = 1.0
"""Seconds between two steps of a person."""
LATENCY: Final = 40
"""Milliseconds for each request."""
THROUGHPUT: Final = 10e6 / 8
"""Bytes a second."""
WINDOW: Final = {"width": 1280, "height": 800}
_SEED: Final = 7


def measure(address: str, days: Sequence[date]) -> dict[str, Any]:
    """Opens the viewer at this address and steps through the days of the made-up history.

    Takes some minutes. Raises playwright's errors where the page does not come, and RunFailedError where
    there are no two changes in view.
    """
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        with closing(playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)) as browser:
            opened = [_opening(browser, address, is_far=is_far) for is_far in (False, True)]
            near, far = (
                [act(browser, address, days, is_far) for act in (_steps, _jumps)] for is_far in (False, True)
            )
    return {"openings": opened, "steps": near + far}


@contextmanager
def _page(browser: Browser, *, is_far: bool) -> Iterator[tuple[Page, CDPSession]]:
    """Opens a window with nothing remembered, whose network is the loopback or a far one."""
    with closing(browser.new_context(viewport=WINDOW, locale="en-GB")) as context:  # type: ignore[arg-type]
        page = context.new_page()
        devtools = context.new_cdp_session(page)
        devtools.send("Network.enable")
        if is_far:
            speed = {"latency": LATENCY, "downloadThroughput": THROUGHPUT, "uploadThroughput": THROUGHPUT}
            devtools.send("Network.emulateNetworkConditions", {"offline": False, **speed})
        yield page, devtools


def _opening(browser: Browser, address: str, *, is_far: bool) -> dict[str, Any]:
    with _page(browser, is_far=is_far) as (page, _):
        page.goto(f"{address}#map={MAP}")
        page.wait_for_function(_FILLED)
        page.wait_for_timeout(PAUSE * 1000)
        found: dict[str, Any] = page.evaluate(_OPENED)
    return {"network": _network(is_far), **found}


def _open_middle(page: Page, address: str, day: date) -> None:
    page.goto(f"{address}#map={MAP}&zoom=0&x=0&z=0&day={day}")
    page.wait_for_function(_FILLED)
    page.wait_for_timeout(3 * PAUSE * 1000)
    if page.locator("#play").is_disabled():
        raise RunFailedError("too little changes in the middle of the map to step: give more --versions")


def _steps(browser: Browser, address: str, days: Sequence[date], is_far: bool) -> dict[str, Any]:
    random = Random(_SEED)  # noqa: S311 - nothing here is secret
    with _page(browser, is_far=is_far) as (page, _):
        _open_middle(page, address, days[len(days) // 2])
        seen = [_seen(page, _STEP, random.choice(_BUTTONS)) for _ in range(STEPS)]
    return _figures("a step, looked ahead to", is_far, seen)


def _jumps(browser: Browser, address: str, days: Sequence[date], is_far: bool) -> dict[str, Any]:
    """Measures jumps to days of which nothing has been asked, as far as there are such days."""
    others = list(days[:-1])
    Random(_SEED).shuffle(others)  # noqa: S311 - nothing here is secret
    seen, pictures = list[float](), list[int]()
    with _page(browser, is_far=is_far) as (page, devtools):
        _open_middle(page, address, days[-1])
        asked = _days_asked(page)
        for day in others:
            if len(seen) < STEPS and day.isoformat() not in asked:
                milliseconds, loaded = _jump(page, devtools, day)
                asked |= _days_asked(page)
                # Where nothing in view is another than before there was nothing to wait for.
                if loaded:
                    seen.append(milliseconds)
                    pictures.append(loaded)
    return _figures("a jump, not cached", is_far, seen) | {"pictures": statistics.mean(pictures)}


def _jump(page: Page, devtools: CDPSession, day: date) -> tuple[float, int]:
    """Returns the milliseconds of a jump, and how many pictures were loaded for it.

    All that the browser keeps is taken from it before. Raises RunFailedError where a picture that was not on
    the screen came out of a cache all the same.
    """
    # To switch the cache off empties what the browser keeps in memory; then its files are removed.
    for is_off in (True, False):
        devtools.send("Network.setCacheDisabled", {"cacheDisabled": is_off})
    devtools.send("Network.clearBrowserCache")
    page.evaluate("performance.clearResourceTimings()")
    before = set(page.evaluate(_SHOWN))
    milliseconds = _seen(page, _JUMP, str((day - type(day)(1970, 1, 1)).days))
    shown = set(page.evaluate(_SHOWN)) - before
    if kept := shown - set(page.evaluate(_LOADED)):
        raise RunFailedError(f"{len(kept)} of {len(shown)} pictures of {day} came out of a cache")
    return milliseconds, len(shown)


def _days_asked(page: Page) -> set[str]:
    """Returns the days whose pictures the page has asked for since its timings were cleared."""
    return {day for each in page.evaluate(_LOADED) for day in re.findall(r"/view\?.*\bday=([\d-]+)", each)}


def _seen(page: Page, act: str, value: str) -> float:
    """Returns the milliseconds from what a person does until the day that it leads to is on the screen."""
    milliseconds: float = page.evaluate(_SEEN, [act, value])
    page.wait_for_function(_FILLED)
    page.wait_for_timeout(PAUSE * 1000)
    return milliseconds


def _figures(what: str, is_far: bool, milliseconds: list[float]) -> dict[str, Any]:
    percentiles = statistics.quantiles(milliseconds, n=20, method="inclusive")
    named = {"p50_ms": percentiles[9], "p95_ms": percentiles[18], "most_ms": max(milliseconds)}
    return {"what": what, "network": _network(is_far), "steps": len(milliseconds), **named}


def _network(is_far: bool) -> str:
    return f"{LATENCY} ms, 10 Mbit/s" if is_far else "loopback"


_FILLED: Final = """() => !document.body.classList.contains("waiting")
  && document.querySelectorAll("#map .picture img").length > 0
  && document.getElementById("map").getAttribute("aria-busy") === "false\""""

_SHOWN: Final = """() => [...document.querySelectorAll("#map .picture img")].map(({ src }) => src)"""
_LOADED: Final = """() => performance.getEntriesByType("resource")
  .filter(({ transferSize }) => transferSize > 0).map(({ name }) => name)"""

_BUTTONS: Final = ("previous", "next")
_STEP: Final = "step"
_JUMP: Final = "jump"

# The words for the day change in the moment in which its pictures are put in. Element Timing tells when the
# frame with these pictures was on the screen, which is some milliseconds after the page has drawn it.
_SEEN: Final = """([act, value]) => new Promise((done) => {
  const pictures = () => [...document.querySelectorAll("#map .picture img")];
  const before = new Set(pictures());
  const slider = document.getElementById("slider");
  const day = document.getElementById("day");
  let began = 0;
  const screen = new PerformanceObserver((frame) => {
    screen.disconnect();
    done(frame.getEntries()[0].renderTime - began);
  });
  const watch = new MutationObserver(() => {
    const shown = Date.parse(`${day.textContent} UTC`) / 86400000;
    if (shown !== Number(slider.value)) return;
    watch.disconnect();
    const others = pictures().filter((picture) => !before.has(picture));
    for (const picture of others) picture.setAttribute("elementtiming", "");
    if (others.length === 0) done(performance.now() - began);
  });
  screen.observe({ type: "element" });
  watch.observe(day, { childList: true, characterData: true, subtree: true });
  began = performance.now();
  if (act === "step") {
    // At the last change in view the step goes back.
    const buttons = [value, "previous", "next"].map((id) => document.getElementById(id));
    buttons.find(({ disabled }) => !disabled).click();
  } else {
    slider.value = value;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }
})"""

_OPENED: Final = """async () => {
  const entries = (type) => new Promise((done) => {
    const found = [];
    const observer = new PerformanceObserver((list) => found.push(...list.getEntries()));
    observer.observe({ type, buffered: true });
    setTimeout(() => done(found), 200);
  });
  const isPage = ({ name }) => name.includes("/page/") || name.split("#")[0].endsWith("/");
  const loaded = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  const pictures = loaded.filter(({ name }) => name.includes("/pictures/"));
  const [paint] = (await entries("paint")).filter(({ name }) => name === "first-contentful-paint");
  const shifts = await entries("layout-shift");
  return {
    page_bytes: loaded.filter(isPage).reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0),
    requests: loaded.filter(isPage).length,
    first_paint_ms: paint.startTime,
    pictures_ms: Math.max(...pictures.map(({ responseEnd }) => responseEnd)),
    layout_shift: shifts.reduce((sum, { value }) => sum + value, 0),
  };
}"""
