"""What an import tells about its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import date

    from tileharvest.history.imported_day import DayRecord


class ImportWatch(Protocol):
    """Is told how an import gets on."""

    def expects(self, parts: int) -> None:
        """So many parts of the source are to be looked at: commits, folders or days, as it is made."""

    def passed(self, parts: int) -> None:
        """So many more of them are done, whatever they brought."""

    def recorded(self, day: date, record: DayRecord) -> None:
        """A day is in the history now."""

    def left_out(self, day: date, why: str) -> None:
        """A day could not be read, and was not recorded."""

    def lacks(self, day: date, file: str, why: str) -> None:
        """The source names an image of a day, and does not have it. The day is recorded without it."""
