"""The lines of the log, whatever a site has written into them."""

import logging
from collections.abc import Iterator
from contextvars import copy_context

import pytest

from tileharvest.spiders.log import WHOSE, make_printable

NASTY = "\x1b[2Jgnp.\u202e\nERROR: forged"
SHOWN = "\\x1b[2Jgnp.\\u202e\\nERROR: forged"


@pytest.fixture
def _printable(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.handler.addFilter(make_printable)
    yield
    caplog.handler.removeFilter(make_printable)


@pytest.mark.usefixtures("_printable")
@pytest.mark.parametrize("name", ["overviewer", "tileharvest.queue", "asyncio"])
def test_a_line_of_the_log_stays_one_printable_line(name: str, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger(name).error("layer %s", NASTY)
    assert caplog.messages == [f"layer {SHOWN}"]


@pytest.mark.usefixtures("_printable")
def test_a_line_says_of_which_map_it_is_once_and_nothing_where_it_is_of_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = logging.getLogger("tests")

    def write_as(whose: str) -> None:
        WHOSE.set(whose)
        log.warning("the host has %d faults", 2)
        log.warning("map 'one' is paused")
        log.warning("map 'other' is no concern of %s", "layer 'one'")

    log.warning("a line of none")
    copy_context().run(write_as, "one")
    log.warning("another line of none")
    assert caplog.messages == [
        "a line of none",
        "map 'one': the host has 2 faults",
        "map 'one' is paused",
        "map 'one': map 'other' is no concern of layer 'one'",
        "another line of none",
    ]


@pytest.mark.usefixtures("_printable")
def test_scrapys_lists_keep_their_lines(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("scrapy.middleware").error("enabled:\n['a',\n '\x1b[2J']")
    assert caplog.messages == ["enabled:\n['a',\n '\\x1b[2J']"]


@pytest.mark.usefixtures("_printable")
def test_a_traceback_is_printable_in_each_of_its_lines(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError(NASTY)
    except ValueError:
        logging.getLogger("overviewer").exception("a mistake")
    assert caplog.text.splitlines()[1].startswith("Traceback")
    assert caplog.text.endswith("\nValueError: \\x1b[2Jgnp.\\u202e\nERROR: forged\n")
