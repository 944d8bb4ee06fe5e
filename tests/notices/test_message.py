"""What is said of a harvest, when, to whom, and what of an address may be seen."""

import io
import logging
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy.settings import Settings

from tests.notices.receiver import Receiver
from tileharvest.errors import (
    AlreadyHarvestedError,
    BudgetError,
    ConfigurationError,
    SiteError,
    TileHarvestError,
)
from tileharvest.history.costs import Cost
from tileharvest.maps.description import MapDescription
from tileharvest.notices.delivery import Target, deliver, notice_occasions, parse_target, parse_targets
from tileharvest.notices.message import Message, Report, compose, is_wanted
from tileharvest.notices.notice import ChangedPlace
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.outcomes import Outcome

DAY = date(2026, 11, 21)
FOUND = {Outcome.IGNORED: 1035, Outcome.UPDATED: 12, Outcome.GONE: 5, Outcome.NOTHING: 13}
QUIET = {Outcome.IGNORED: 35, Outcome.NOT_MODIFIED: 2, Outcome.NOTHING: 13}
SOME_FAILED = {**QUIET, Outcome.FAILED: 1}
UNREACHABLE = SiteError("http://example.net/ cannot be reached <timeout>; try again later")
BUDGET = BudgetError("the budget of 90 requests is spent; run again", "budget: 90 requests")


def report(found: dict[Outcome, int], error: TileHarvestError | None = None) -> Report:
    return Report("demo", DAY, found, error, Cost(1092, 2_700_000, 0, 3_300_000))


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (report(FOUND), "17 tiles changed"),
        (report({Outcome.REPLACED: 1}), "1 tile changed"),
        (report(QUIET), "nothing changed"),
        (report(SOME_FAILED), "nothing changed, 1 tile failed"),
        (report({}, UNREACHABLE), "the harvest failed"),
        (report({Outcome.ADDED: 1200}, BUDGET), "ended by its budget, 1,200 tiles changed"),
    ],
)
def test_the_title_says_the_most_important(ended: Report, said: str) -> None:
    assert compose(ended).title == f"demo, 2026-11-21: {said}"


def test_the_text_reads_well_without_markup() -> None:
    view = TileRange(0, 1, 7, 1, 7)
    place = ChangedPlace("world`s\nday", 12, (view,), 272, -208, -1, tile=Tile(-2, 4, 4))
    message = compose(report(FOUND), [place], "http://viewer.example.net/")
    assert message.body == (
        "    outcome  tiles\n"
        "    404         13\n"
        "    ign      1,035\n"
        "    upd         12\n"
        "    gone         5\n"
        "\n"
        "1,092 requests, 2.7 MB received, 3.3 MB spared by ETags.\n"
        "\n"
        "Where most changed:\n"
        "\n"
        "- -2_4_4 of `world's\\nday`: 12 tiles\n"
        "  <http://viewer.example.net/#map=demo&layer=world%60s%0Aday&day=2026-11-21&x=272&z=-208&zoom=-1>\n"
    )


def test_a_place_on_the_earth_is_told_in_degrees() -> None:
    view = TileRange(0, 1, 7, 1, 7)
    place = ChangedPlace("zoom10", 1, (view,), 8.1125, -54.3, -1, "", Tile(0, 1, 1), (47.372, 8.6125))
    said = compose(report(FOUND), [place], "http://viewer.example.net/").body
    assert "- 0_1_1 of `zoom10` at 47.37200\u00b0, 8.61250\u00b0: 1 tile\n" in said
    assert said.endswith("&x=8.1125&z=-54.3&zoom=-1>\n")


def test_an_error_comes_first_and_no_service_takes_it_for_markup() -> None:
    lines = compose(report({}, SiteError(f"{UNREACHABLE} {'word ' * 30}"))).body.splitlines()
    assert lines[0].startswith("    http://example.net/ cannot be reached <timeout>;")
    assert all(line.startswith("    ") and len(line) <= 80 for line in lines[: lines.index("")])


ENDS = {
    "changed": report(FOUND),
    "quiet": report(QUIET),
    "some failed": report(SOME_FAILED),
    "unreachable": report({}, UNREACHABLE),
    "budget": report(QUIET, BUDGET),
    "already": report({}, AlreadyHarvestedError("already")),
    "spent before": report({}, BudgetError("spent", "daily budget: 90 requests")),
}


@pytest.mark.parametrize(
    ("occasions", "told"),
    [
        ((), set()),
        (("change",), {"changed"}),
        (("failure",), {"some failed", "unreachable", "budget"}),
        (("change", "failure"), {"changed", "some failed", "unreachable", "budget"}),
        (("always",), {"changed", "quiet", "some failed", "unreachable", "budget"}),
    ],
)
def test_who_wants_what_is_told_that_and_never_of_a_harvest_that_was_done(
    occasions: tuple[str, ...], told: set[str]
) -> None:
    assert {name for name, ended in ENDS.items() if is_wanted(ended, occasions)} == told


# Apprise loads a module that Python 3.13 has no more, where there is one.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

SECRET = "s3cretT0ken"
LONG = 100.0
"""Seconds that are enough on any computer."""
MESSAGE = Message("demo: 17 tiles changed", "    upd  17\n\n- **one** <http://example.net/#a=b&c=d>\n", False)
PICTURE = bytes(range(256)) * 100


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """All that reaches a handler of the root logger, as Scrapy's is, at any level."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(1)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def test_a_message_arrives_whole_with_its_picture(received: Receiver) -> None:
    target = Target(received.address("/in", f"me:{SECRET}"))
    assert deliver([target], MESSAGE, PICTURE, LONG) == []
    (posted,) = received.posted
    assert (posted.path, posted.title, posted.body.strip("\n")) == (
        "/in",
        MESSAGE.title,
        MESSAGE.body.strip("\n"),
    )
    assert posted.attachments == [PICTURE]
    assert posted.authorization == "Basic " + b64encode(f"me:{SECRET}".encode()).decode()


def test_those_who_do_not_take_it_are_told_of_and_no_secret_is(
    received: Receiver, logged: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    targets = [
        Target(received.address(f"/500/{SECRET}", f"me:{SECRET}")),
        Target(f"json://me:{SECRET}@127.0.0.1:{nobody}/{SECRET}"),
        Target(f"nosuchservice://{SECRET}"),
        Target(SECRET),
        Target(received.address(f"/{SECRET}")),
    ]
    missed = deliver(targets, MESSAGE, None, LONG)
    unknown = "Apprise does not understand the address"
    assert missed == [
        "json://... (it answered 500)",
        "json://... (it does not answer)",
        f"nosuchservice://... ({unknown})",
        f"an address without a scheme ({unknown})",
    ]
    assert len(received.posted) == 2
    logging.getLogger("tileharvest").warning("this is logged")
    assert "this is logged" in logged.getvalue()
    said = "".join(capfd.readouterr()) + logged.getvalue() + repr(missed) + repr(targets)
    assert SECRET not in said


def test_what_hangs_does_not_hold_up_the_end_of_the_process(received: Receiver) -> None:
    before = set(threading.enumerate())
    deliver([Target(received.address("/hang"))], MESSAGE, None, 0.2)
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert "notice" in {thread.name for thread in left}
    assert all(thread.daemon for thread in left), "Python waits for the others"


passwords = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(passwords)
@example("a:b@c/d?e#f%20g é")
def test_a_password_may_hold_any_sign(password: str) -> None:
    target = parse_target("mailto://me:${PASSWORD}@mail.example.net:25/x?to=y", {"PASSWORD": password})
    parts = urlsplit(target.url)
    assert unquote(parts.password or "") == password
    assert (parts.hostname, parts.port, parts.path, parts.query) == ("mail.example.net", 25, "/x", "to=y")


def test_a_secret_may_stand_in_a_file_and_one_that_is_all_is_taken_for_an_address(tmp_path: Path) -> None:
    file, address = tmp_path / "token", "json://me:pass%20word@example.net/?a=b"
    file.write_text("12:ab\n")
    assert parse_target(f"tgram://${{file:{file}}}/1", {}).url == "tgram://12%3Aab/1"
    assert parse_target(" ${WHERE} ", {"WHERE": address}).url == address


def test_what_is_missing_is_named_and_the_other_addresses_are_kept(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    texts = [
        "json://${NAME}",
        "json://${EMPTY}",
        f"json://${{file:{empty}}}",
        "json://${file:/nowhere}",
        "a://b",
    ]
    targets, missing = parse_targets(texts, {"EMPTY": ""})
    assert targets == [Target("a://b")]
    assert missing == [
        "the environment variable NAME is not set",
        "the environment variable EMPTY is not set",
        f"the file {empty} is empty",
        "the file /nowhere cannot be read (No such file or directory)",
    ]


def test_an_occasion_for_messages_that_is_none_is_refused() -> None:
    settings = Settings({"NOTIFY_ON": "change,full moon"})
    with pytest.raises(ConfigurationError, match="NOTIFY_ON 'full moon' is none of: "):
        notice_occasions(settings, MapDescription(name="m", url="http://map.example.net/"))
