"""The failures that a user can cause or meet, and how text is made printable.

Each failure carries one line for a person (what happened, what was kept, what to do next) and the exit status
of the command. Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
import re
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


class ExitStatus(IntEnum):
    """The exit statuses of the commands."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    FAILED_TILES = 3
    BUDGET = 4
    UNREACHABLE = 5


class TileHarvestError(Exception):
    """A failure with a message for a person. `str(error)` is one line."""

    exit_status = ExitStatus.ERROR

    def __init__(self, message: str, *, exit_status: ExitStatus | None = None) -> None:
        """`exit_status` replaces the exit status of the class."""
        super().__init__(printable(message))
        if exit_status is not None:
            self.exit_status = exit_status

    @property
    def close_reason(self) -> str:
        """The `finish_reason` in Scrapy's statistics of a crawl that this failure has ended."""
        return self.exit_status.name.lower()


class StoppedError(TileHarvestError):
    """A person has stopped the command. The message says what was kept."""


class ConfigurationError(TileHarvestError):
    """`maps.toml`, a setting or an argument is wrong. Nothing was changed."""

    exit_status = ExitStatus.USAGE


class SiteError(TileHarvestError):
    """The map's site cannot be read, forbids it, or has moved."""

    exit_status = ExitStatus.UNREACHABLE


class MovedError(SiteError):
    """The map is not at its address: most of the known tiles are missing, or a new map has none at all. None
    of its tiles is recorded as gone."""

    def __init__(self, message: str, reason: str = "moved") -> None:
        """`reason` is what the history keeps of it."""
        super().__init__(message)
        self.reason = reason


class BudgetError(TileHarvestError):
    """A budget is spent, or too little room is left. What was found is kept; the next run goes on."""

    exit_status = ExitStatus.BUDGET

    def __init__(self, message: str, reason: str, *, is_all_kept: bool = True) -> None:
        """`reason` says in a few words what was spent. The history keeps it. `is_all_kept` says that no
        result was dropped, so that nothing must be asked for twice."""
        super().__init__(message)
        self.reason = reason
        self.is_all_kept = is_all_kept


class AlreadyHarvestedError(TileHarvestError):
    """The harvest of this segment is complete: there is nothing to do, and nothing was asked."""

    exit_status = ExitStatus.DONE


class HistoryError(TileHarvestError):
    """The history cannot be opened, read or written. Nothing in it was changed."""


class StoreError(TileHarvestError):
    """The store cannot take or give bytes. Nothing in it was changed."""


class QueueError(TileHarvestError):
    """The queue of a map cannot be opened, read or written. No request in it was lost."""


_MOST_CHARACTERS: Final = 2000
"""The most characters of a line that the program writes."""
HIDDEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""Characters that steer a terminal or change how the text beside them reads: control characters, formats such
as overrides of the direction, surrogates, and separators of lines (Cc, Cf, Cs, Zl and Zp of Unicode)."""


def printable(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Returns the text as one line of at most `most` characters that any terminal, log and page can show.

    Hidden characters are escaped as in Python, such as `\\x1b`. A text that is too long ends with `...`.
    Every text of a site goes through this before it is shown.
    """
    cut = text if len(text) <= most else text[: most - 3] + "..."
    if cut.isprintable():
        return cut
    seen = HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), cut)
    return seen if len(seen) <= most else seen[: most - 3] + "..."


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun: 1 tile, 2 tiles, 1,000 tiles."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration_in_words(seconds: float) -> str:
    """Returns a text such as `40 s`, `25 min`, `3 h 20 min` or `2 days 4 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"


def nearest(word: str, known: Iterable[str], otherwise: str) -> str:
    """Returns `did you mean 'WORD'?` with the known word nearest to a wrong one, or `otherwise` if none is
    near."""
    meant = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean '{meant[0]}'?" if meant else otherwise


def program() -> str:
    """Returns the name by which this program was started: `scrapy`, or else `tileharvest`."""
    # `python -m scrapy` has the path of the package's `__main__.py`.
    return "scrapy" if "scrapy" in sys.argv[0].split("/")[-2:] else "tileharvest"
