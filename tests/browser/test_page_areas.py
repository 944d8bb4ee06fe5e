"""The pages of named areas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.windows import DESK
from tests.viewer.building import MAP

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browser.viewed_maps import Viewer


def test_an_area_that_is_not_there_is_said(open_page: Callable[..., Page], named: Viewer) -> None:
    page = open_page(**DESK)
    for link in (f"#area=barn&map={MAP}", "#area=barn&map=plain", "#area=barn&map=nowhere"):
        page.goto(f"{named.url}/{link}")
        expect(page.get_by_role("alert")).to_contain_text("There is no area")
        expect(page.get_by_role("link", name="my base")).to_be_visible()
