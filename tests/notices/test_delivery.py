"""Apprise, against somebody who takes messages, and others who do not."""

from __future__ import annotations

import io
import logging
import socket
import threading
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from tileharvest.notices.delivery import Target, deliver
from tileharvest.notices.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

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
