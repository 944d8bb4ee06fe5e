"""Notices of real harvests: `scrapy harvest` against nginx, and somebody who gets the messages."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, SECOND_DAY, THIRD_DAY, drawn, publish, visit
from tests.end_to_end.project import Project
from tests.notices.receiver import receiver
from tests.servers.nginx import Nginx

SECRET = "s3cretT0ken"
VIEWER = "http://viewer.example.net/"


def test_a_harvest_tells_what_has_changed_with_a_picture_and_of_its_end_by_an_error(
    project: Project, nginx: Callable[..., Nginx], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reaches nobody is one line without secrets, and makes no harvest fail."""
    monkeypatch.setenv("TOKEN", SECRET)
    files = publish(tmp_path / "site")
    with receiver() as received:
        monkeypatch.setenv("REFUSING", received.address(f"/500/{SECRET}"))
        addresses = [received.address("/in/${TOKEN}", "me:${TOKEN}"), "${REFUSING}", "json://${MISSING}/"]
        project.add_map("small", f"{nginx(files.folder).url}/", notify=addresses, viewer=VIEWER)
        first = visit(project, FIRST_DAY, "--loglevel", "DEBUG")
        files.write("01", drawn("other"))
        files.write("02", drawn("another"))
        second = visit(project, SECOND_DAY)
        shutil.rmtree(files.folder)
        third = visit(project, THIRD_DAY)

    assert [done.status for done in (first, second, third)] == [0, 0, 5]
    warnings = [line for line in first.said.splitlines() if "WARNING: " in line]
    missing, missed = (line.partition("WARNING: ")[2] for line in warnings)
    assert missing.startswith(
        "an address to notify is left out: the environment variable MISSING is not set;"
    )
    assert missed == (
        "the notice about map 'small' did not reach json://... (it answered 500); the harvest is kept as it"
        " is: look at `notify`, and see docs/notices.md"
    )
    assert SECRET not in first.said + str(first.reports)
    beginning, change, failure = (one for one in received.posted if one.path == f"/in/{SECRET}")
    assert beginning.title == f"small, {FIRST_DAY}: 20 tiles changed"
    assert change.title == f"small, {SECOND_DAY}: 2 tiles changed"
    assert re.search(r"^    upd +2$", change.body, re.MULTILINE)
    assert f"{second.reports[0]['requests']} requests, " in change.body
    link = f"{VIEWER}#map=small&layer=world-day&day={SECOND_DAY}&x="
    assert f"- -1_-2_2 of `world-day`: 2 tiles\n  <{link}" in change.body
    side = (change.picture.width - 8) // 2
    before, after = (change.picture.crop((left, 32, left + side, 32 + side)) for left in (0, side + 8))
    assert before.tobytes() != after.tobytes()
    assert (failure.title, failure.attachments) == (f"small, {THIRD_DAY}: the harvest failed", [])
    assert failure.body.startswith("    no map was found at ")
