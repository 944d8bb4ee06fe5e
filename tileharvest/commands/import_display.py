"""How an import gets on, and what it has brought."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from tileharvest.commands.progress import ProgressLine
from tileharvest.errors import counted
from tileharvest.tiles.outcomes import Outcome, counts_as_plain

if TYPE_CHECKING:
    from datetime import date

    from rich.console import Console

    from tileharvest.history.imported_day import DayRecord

_MOST_TOLD: Final = 10
"""Days that could not be read, and images that are missing, of which people are told one by one. Programs are
told all of them."""


class ImportDisplay(ProgressLine):
    """Shows an import into one map, and keeps what it has brought. It is an `ImportWatch`."""

    def __init__(self, name: str, console: Console, interval: float, *, as_json: bool) -> None:
        super().__init__(name, console, interval, as_json=as_json)
        self.days: dict[date, DayRecord] = {}
        self.unread: dict[date, str] = {}
        """Why days were left out."""
        self.missing: list[tuple[date, str, str]] = []
        """Images that are missing: the day, the file, and why."""
        self.counts: Counter[Outcome] = Counter()
        """The outcomes of all days."""

    def recorded(self, day: date, record: DayRecord) -> None:
        self.days[day] = record
        self.counts.update(record.counts)
        self.note = str(day)

    def left_out(self, day: date, why: str) -> None:
        self.unread[day] = why
        self._tell(len(self.unread), f"{day} was left out: {why}", "more days were left out")

    def lacks(self, day: date, file: str, why: str) -> None:
        self.missing.append((day, file, why))
        self._tell(len(self.missing), f"{day}: {file}: {why}", "more images are missing")

    def _tell(self, number: int, line: str, more: str) -> None:
        """Writes the line, of which this is the number, unless there are too many of them."""
        if number <= _MOST_TOLD:
            self.write(line)
        elif number == _MOST_TOLD + 1:
            self.write(f"{more}; --json names them all")

    def as_plain(self) -> dict[str, Any]:
        """Returns how far it is, for programs."""
        return {**super().as_plain(), "days": len(self.days), "counts": counts_as_plain(self.counts)}

    def in_words(self) -> str:
        """Returns how far it is, and what it has brought."""
        last = f", until {max(self.days)}" if self.days else ""
        found = ", ".join(f"{word} {number:,}" for word, number in counts_as_plain(self.counts).items())
        return f"{super().in_words()}; {counted(len(self.days), 'day')}{last}; {found or 'nothing found yet'}"
