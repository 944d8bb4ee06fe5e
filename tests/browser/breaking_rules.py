"""Tests that the rig must fail: test_rig.py runs them in a pytest of their own; no other collects them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_an_error_on_the_console(page: Page, page_files: str) -> None:
    page.goto(page_files + "/blank")
    page.evaluate("console.error('said aloud')")


def test_an_error_that_nobody_catches(page: Page, page_files: str) -> None:
    page.goto(page_files + "/blank")
    page.evaluate("() => { setTimeout(() => { throw new Error('not caught'); }); }")
    page.evaluate("() => new Promise((done) => setTimeout(done))")


def test_a_request_to_another_host(page: Page, page_files: str) -> None:
    page.goto(page_files + "/blank")
    page.evaluate("fetch('http://elsewhere.example/').catch(() => {})")


def test_that_fails_by_itself(page: Page) -> None:
    assert page.url == "never"
