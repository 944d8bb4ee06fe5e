"""How an import gets on: a line that moves on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tileharvest.tiles.outcomes import Outcome, counts_as_plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date
    from types import TracebackType

    from rich.console import Console

    from tileharvest.history.imported_day import DayRecord

_MOST_TOLD: Final = 10
"""Days that could not be read, and images that are missing, of which people are told one by one. Programs are
told all of them."""


class ImportDisplay:
    """Shows an import into one map, and keeps what it has brought. It is an `ImportWatch`."""

    def __init__(
        self,
        name: str,
        console: Console,
        interval: float,
        *,
        as_json: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`interval` is in seconds, between two lines where nothing can move."""
        self._name = name
        self._console = console
        self._interval = interval
        self._as_json = as_json
        self._clock = clock
        self._told = clock()
        self._done = self._expected = 0
        self.days: dict[date, DayRecord] = {}
        self.unread: dict[date, str] = {}
        """Why days were left out."""
        self.missing: list[tuple[date, str, str]] = []
        """Images that are missing: the day, the file, and why."""
        self.counts: Counter[Outcome] = Counter()
        """The outcomes of all days."""
        self._moving: Progress | None = None
        if console.is_terminal and not as_json:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[day]}"),
                TimeRemainingColumn(),
            )
            self._moving = Progress(*columns, console=console, transient=True)
            self._task = self._moving.add_task(name, total=None, day="")

    def __enter__(self) -> Self:
        if self._moving is not None:
            self._moving.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._moving is not None:
            self._moving.stop()

    def expects(self, parts: int) -> None:
        self._expected = parts
        if self._moving is not None:
            self._moving.update(self._task, total=parts)

    def passed(self, parts: int) -> None:
        self._done += parts
        if self._moving is not None:
            self._moving.update(self._task, completed=self._done)
        elif self._clock() - self._told >= self._interval:
            self._told = self._clock()
            self._write(json.dumps(self.as_plain()) if self._as_json else self._in_words())

    def recorded(self, day: date, record: DayRecord) -> None:
        self.days[day] = record
        self.counts.update(record.counts)
        if self._moving is not None:
            self._moving.update(self._task, day=str(day))

    def left_out(self, day: date, why: str) -> None:
        self.unread[day] = why
        self._tell(len(self.unread), f"{day} was left out: {why}", "more days were left out")

    def lacks(self, day: date, file: str, why: str) -> None:
        self.missing.append((day, file, why))
        self._tell(len(self.missing), f"{day}: {file}: {why}", "more images are missing")

    def _tell(self, number: int, line: str, more: str) -> None:
        """Writes the line, of which this is the number, unless there are too many of them."""
        if number <= _MOST_TOLD:
            self._write(line)
        elif number == _MOST_TOLD + 1:
            self._write(f"{more}; --json names them all")

    def as_plain(self) -> dict[str, Any]:
        """Returns how far it is, for programs."""
        return {
            "map": self._name,
            "done": self._done,
            "expected": self._expected,
            "days": len(self.days),
            "counts": counts_as_plain(self.counts),
        }

    def _in_words(self) -> str:
        last = f", until {max(self.days)}" if self.days else ""
        found = ", ".join(f"{word} {number:,}" for word, number in counts_as_plain(self.counts).items())
        return (
            f"{self._name}: {self._done:,} of {self._expected:,}; {len(self.days):,} days{last};"
            f" {found or 'nothing found yet'}"
        )

    def _write(self, line: str) -> None:
        self._console.file.write(f"{line}\n") if self._moving is None else self._console.print(line)
        self._console.file.flush()
