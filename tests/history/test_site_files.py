"""The small files of a site, as they were on each day, whatever the order in which days are recorded."""

from datetime import date
from random import Random

import pytest

from tests.history.making import began, ended
from tileharvest.history.database import History
from tileharvest.history.site_files import (
    MOST_BYTES,
    SiteFile,
    first_day_of_files,
    keep_site_files,
    site_files_of,
)
from tileharvest.tiles.versions import Validator

FIRST, SECOND, THIRD = (date(2021, 2, day) for day in (1, 2, 3))
ONE, OTHER = SiteFile(Validator('"1"'), b"one"), SiteFile(Validator(None, "today"), b"other")


@pytest.fixture
def history(history: History) -> History:
    for day in (FIRST, SECOND, THIRD):
        ended(began(history, day))
    return history


def test_large_files_are_not_kept(history: History) -> None:
    keep_site_files(history, "world", FIRST, {"a": SiteFile(Validator(), b" " * (MOST_BYTES + 1)), "b": ONE})
    assert site_files_of(history, "world", FIRST) == {"b": ONE}
    before = date(2021, 1, 31)
    assert site_files_of(history, "world", before) == site_files_of(history, "other", THIRD) == {}
    assert first_day_of_files(history, "world", before) == FIRST


def test_days_may_come_in_any_order_and_twice(history: History) -> None:
    """What a day has read is what it has, whatever was recorded of other days before or after."""
    chance, kept = Random(3), dict[date, dict[str, SiteFile]]()
    for _ in range(60):
        day = chance.choice((FIRST, SECOND, THIRD))
        kept[day] = {name: chance.choice((ONE, OTHER)) for name in "abc"[: chance.randint(1, 3)]}
        keep_site_files(history, "world", day, kept[day])
        assert {day: site_files_of(history, "world", day) for day in kept} == kept
