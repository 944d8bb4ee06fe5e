"""The rig itself: it fails tests whose pages do what they must not, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.watching import Watch

_MARK: Final = "TILEHARVEST_TEST_OF_THE_RIG"
_ROOT: Final = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def broken_rules(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """What pytest said of the tests that break the rules, the mark of its processes, and their folder."""
    mark, folder = uuid.uuid4().hex, tmp_path_factory.mktemp("rules")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={folder / 'tests'}"]
    run = subprocess.run(
        [*command, str(Path(__file__).with_name("breaking_rules.py"))],
        cwd=_ROOT,
        env={**os.environ, _MARK: mark},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return run.stdout, mark, folder


@pytest.mark.parametrize(
    "line",
    [
        "ERROR tests/browser/breaking_rules.py::test_an_error_on_the_console",
        "ERROR tests/browser/breaking_rules.py::test_an_error_that_nobody_catches",
        "ERROR tests/browser/breaking_rules.py::test_a_request_to_another_host",
        "FAILED tests/browser/breaking_rules.py::test_that_fails_by_itself",
        "1 failed, 3 passed, 3 errors",
        "error on the console: said aloud",
        "error in the page: Error: not caught",
        "asked another host: http://elsewhere.example/",
    ],
)
def test_what_a_page_must_not_do_fails_its_test(line: str, broken_rules: tuple[str, str, Path]) -> None:
    assert line in broken_rules[0]


def test_a_failed_test_leaves_a_picture_and_says_where(broken_rules: tuple[str, str, Path]) -> None:
    said, _, folder = broken_rules
    pictures = list(folder.rglob("page-1.png"))
    assert len(pictures) == 4
    assert all(str(picture) in said for picture in pictures)


def test_no_process_is_left_after_failures(broken_rules: tuple[str, str, Path]) -> None:
    deadline = time.monotonic() + 240
    # Its crash handlers are processes of their own, which end when they notice that the browser has.
    while (left := processes_with(broken_rules[1])) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == []


def test_a_page_can_reach_no_other_host(page: Page, page_files: str, watch: Watch) -> None:
    watch.expected.append("ERR_NAME_NOT_RESOLVED")
    page.goto(page_files + "/blank")
    outcome = page.evaluate("fetch('http://localhost.example/').then(() => 'answered', () => 'refused')")
    assert outcome == "refused"
    watch.urls.clear()


def test_an_expected_error_is_forgiven(page: Page, page_files: str, watch: Watch) -> None:
    page.goto(page_files + "/blank")
    watch.expected.append("on purpose")
    page.evaluate("console.error('on purpose')")
    page.evaluate("console.warn('a warning is no error')")
    assert watch.wrong() == []
    assert len(watch.console_errors) == 1


def processes_with(mark: str) -> list[str]:
    """The running processes that were started, directly or not, with the mark in their environment.

    Chromium's own children may overwrite theirs; they end with the browser, which does not.
    """
    found = []
    for folder in Path("/proc").iterdir():
        try:
            environment = (folder / "environ").read_bytes() if folder.name.isdigit() else b""
            if f"{_MARK}={mark}".encode() in environment:
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # It ended meanwhile, or is not ours.
    return found
