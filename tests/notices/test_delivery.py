"""Addresses with secrets, and Apprise against somebody who takes messages, and others who do not."""

from __future__ import annotations

import io
import logging
import socket
import threading
from base64 import b64encode
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy.settings import Settings

from tileharvest.errors import ConfigurationError
from tileharvest.maps.description import MapDescription
from tileharvest.notices.delivery import Target, deliver, notice_occasions, parse_target, parse_targets
from tileharvest.notices.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.notices.receiver import Receiver

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
