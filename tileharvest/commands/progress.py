"""The progress of an import or an export: a line that moves on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tileharvest.errors import printable
from tileharvest.harvest.plan import duration_in_words

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console


class ProgressLine:
    """Shows how many parts of some work are done, and how long the rest will take.

    The work calls `expects` once it knows how many parts it has, and `passed` after each.
    """

    def __init__(self, name: str, console: Console, interval: float, *, as_json: bool) -> None:
        """`interval` is the seconds between two lines where no line can move."""
        self._name = name
        self._console = console
        self._interval = interval
        self._as_json = as_json
        self._begun = self._told = time.monotonic()
        self._done = self._expected = 0
        self.note = ""
        """A text beside the numbers, such as the day that was done last."""
        self._moving: Progress | None = None
        if console.is_terminal and not as_json:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(),
            )
            self._moving = Progress(*columns, console=console, transient=True)
            self._task = self._moving.add_task(name, total=None, note="")

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
        """Notes that the work has so many parts."""
        self._expected = parts
        if self._moving is not None:
            self._moving.update(self._task, total=parts)

    def passed(self, parts: int = 1) -> None:
        """Notes that so many more parts are done."""
        self._done += parts
        if self._moving is not None:
            self._moving.update(self._task, completed=self._done, note=self.note)
        elif time.monotonic() - self._told >= self._interval:
            self._told = time.monotonic()
            self.write(json.dumps(self.as_plain()) if self._as_json else self.in_words())

    def as_plain(self) -> dict[str, Any]:
        """Returns the progress for programs."""
        return {"map": self._name, "done": self._done, "expected": self._expected}

    def in_words(self) -> str:
        """Returns the progress for people, such as `world: 30 of 100, 2 min left`."""
        words = f"{self._name}: {self._done:,} of {self._expected:,}"
        if self._done:
            left = (time.monotonic() - self._begun) / self._done * (self._expected - self._done)
            words += f", {duration_in_words(left)} left"
        return words

    def write(self, line: str) -> None:
        """Writes a line above the one that moves."""
        line = printable(line)
        self._console.file.write(f"{line}\n") if self._moving is None else self._console.print(line)
        self._console.file.flush()
