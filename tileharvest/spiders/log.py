"""The lines of the log, which any terminal can show."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from scrapy import signals

from tileharvest.errors import printable

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


WHOSE: Final[ContextVar[str | None]] = ContextVar("whose", default=None)
"""The map that the lines of the present task are to name. None unless one process harvests several maps.
Tasks and callbacks inherit it from their maker."""


def make_printable(record: logging.LogRecord) -> bool:
    """A filter of logging that makes of each line one that any terminal can show, whatever a site has written
    into it.

    A message of Scrapy's, such as its settings, and a traceback keep their lines. All others become one line.
    A line names the map of `WHOSE`, unless its text names that map already. A line that has passed before
    stays as it is.
    """
    message, whose = record.getMessage(), WHOSE.get()
    message = _printable_lines(message) if record.name.startswith("scrapy.") else printable(message)
    if whose is not None and f"map '{whose}'" not in message:
        message = f"map '{whose}': {message}"
    record.msg, record.args = message, ()
    if record.exc_info:
        traceback = record.exc_text or logging.Formatter().formatException(record.exc_info)
        record.exc_text = _printable_lines(traceback)
    return True


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def write_printable_lines(crawler: Crawler | None = None) -> None:
    """Lets the handlers of the process's log write such lines. Scrapy makes its handler anew for each
    crawler, after the spider and before that is opened."""
    for handler in logging.root.handlers:
        handler.addFilter(make_printable)
    if crawler is not None:
        crawler.signals.connect(write_printable_lines, signals.spider_opened)
