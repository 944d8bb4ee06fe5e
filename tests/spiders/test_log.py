"""The lines of the log, whatever a site has written into them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tileharvest.spiders.log import PrintableRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

NASTY = "\x1b[2Jgnp.\u202e\nERROR: forged"
SHOWN = "\\x1b[2Jgnp.\\u202e\\nERROR: forged"


@pytest.fixture
def _printable() -> Iterator[None]:
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(PrintableRecord)
    yield
    logging.setLogRecordFactory(before)


@pytest.mark.usefixtures("_printable")
@pytest.mark.parametrize("name", ["overviewer", "tileharvest.queue", "asyncio"])
def test_a_line_of_the_log_stays_one_printable_line(name: str, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger(name).error("layer %s", NASTY)
    assert caplog.messages == [f"layer {SHOWN}"]


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
