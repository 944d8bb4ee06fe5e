"""Notices of real harvests: `scrapy harvest` against nginx, and somebody who gets the messages."""

from __future__ import annotations

import re
import shutil
import socket
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, SECOND_DAY, THIRD_DAY, drawn, publish, visit
from tests.notices.receiver import receiver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.notices.receiver import Receiver
    from tests.servers.nginx import Nginx

SECRET = "s3cretT0ken"
VIEWER = "http://viewer.example.net/"


@pytest.fixture
def received() -> Iterator[Receiver]:
    with receiver() as listening:
        yield listening


def test_a_harvest_tells_what_has_changed_with_a_picture_and_of_its_end_by_an_error(
    project: Project,
    received: Receiver,
    nginx: Callable[..., Nginx],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    files = publish(tmp_path / "site")
    address = received.address("/in/${TOKEN}", "me:${TOKEN}")
    project.add_map("small", f"{nginx(files.folder).url}/", notify=[address], viewer=VIEWER)

    first = visit(project, FIRST_DAY)
    files.write("01", drawn("other"))
    files.write("02", drawn("another"))
    second = visit(project, SECOND_DAY)
    shutil.rmtree(files.folder)
    third = visit(project, THIRD_DAY)

    assert [(done.status, done.said) for done in (first, second)] == [(0, ""), (0, "")]
    beginning, change, failure = received.posted
    assert beginning.title == f"small, {FIRST_DAY}: 20 tiles changed"
    assert (change.title, change.path) == (f"small, {SECOND_DAY}: 2 tiles changed", f"/in/{SECRET}")
    (report,) = second.reports
    assert re.search(r"^    upd +2$", change.body, re.MULTILINE)
    assert f"{report['requests']} requests, " in change.body
    link = f"{VIEWER}#map=small&layer=world-day&day={SECOND_DAY}&x="
    assert f"- -1_-2_2 of `world-day`: 2 tiles\n  <{link}" in change.body
    side = (change.picture.width - 8) // 2
    before, after = (change.picture.crop((left, 32, left + side, 32 + side)) for left in (0, side + 8))
    assert before.tobytes() != after.tobytes()
    assert third.status == 5
    assert (failure.title, failure.attachments) == (f"small, {THIRD_DAY}: the harvest failed", [])
    assert third.error.split()[0] in failure.body


def test_a_notice_that_reaches_nobody_is_one_line_without_secrets_and_no_failure(
    project: Project,
    received: Receiver,
    nginx: Callable[..., Nginx],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    monkeypatch.setenv("REFUSING", received.address(f"/500/{SECRET}"))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    addresses = ["${REFUSING}", f"json://me:${{TOKEN}}@127.0.0.1:{nobody}/", "json://${MISSING}/"]
    project.add_map("small", f"{nginx(publish(tmp_path / 'site').folder).url}/", notify=addresses)

    done = visit(project, FIRST_DAY, "--loglevel", "DEBUG")

    assert done.status == 0
    warnings = [line for line in done.said.splitlines() if "WARNING: " in line]
    missing, missed = (line.partition("WARNING: ")[2] for line in warnings)
    assert missing == (
        "an address to notify is left out: the environment variable MISSING is not set; this goes on without"
    )
    assert missed == (
        "the notice about map 'small' did not reach json://... (it answered 500), json://... (it does not"
        " answer); the harvest is kept as it is: look at `notify`, and see docs/notices.md"
    )
    assert SECRET not in done.said + str(done.reports)
