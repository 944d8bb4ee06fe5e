"""What the commands write: data to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from tileharvest.errors import HIDDEN, ExitStatus, TileHarvestError, printable
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Mapping, Sequence

Columns: TypeAlias = "Mapping[str, str | Callable[[Mapping[str, Any]], str]]"
"""A table's columns: each head with the key, or the function of the row, that gives its cells."""

_WIDTH_OF_PIPES = 1_000_000
"""Columns if the output is no terminal: so many that nothing is cut off."""


@contextlib.contextmanager
def failing_clearly(command: Any) -> Iterator[None]:
    """Turns a failure into one line on stderr and the exit status of a command of Scrapy, its `exitcode`.

    If the reader of the output, such as `head`, has seen enough, no line is written: the status alone tells
    that the output is not complete.
    """
    try:
        yield
        sys.stdout.flush()
    except TileHarvestError as error:
        write_error(str(error))
        command.exitcode = error.exit_status
    except BrokenPipeError:
        # Python writes what is left when it ends, and that must not fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        command.exitcode = ExitStatus.ERROR


@contextlib.contextmanager
def stopped_by_signals(said: str) -> Iterator[None]:
    """Raises TileHarvestError, which says this, where SIGINT or SIGTERM comes while the block runs.

    So whatever was begun is tidied up. Call it in the main thread.

    In the block it is a KeyboardInterrupt: what catches every error and goes on does not catch that. A second
    signal is ignored, as `timeout` sends each twice and the clean-up is not to be interrupted. From the third
    on each is raised again, so that whatever holds the block up is ended.
    """
    came = 0

    def stop(number: int, frame: Any) -> None:
        nonlocal came
        came += 1
        if came != 2:
            raise KeyboardInterrupt

    before = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)}
    for which in before:
        signal.signal(which, stop)
    try:
        yield
    except KeyboardInterrupt:
        raise TileHarvestError(said) from None
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def write_error(message: str) -> None:
    """Writes one line on stderr."""
    sys.stderr.write(f"{printable(f'error: {message}')}\n")


def say(line: str) -> None:
    """Writes one line on stderr at once. It is for a person, and no error."""
    sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()


def write_line(text: str) -> None:
    """Writes one line on stdout."""
    sys.stdout.write(f"{printable(text)}\n")


def write_json(value: Any) -> None:
    """Writes a value of plain types on stdout, for programs."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    sys.stdout.write(f"{HIDDEN.sub(_escaped, text)}\n")


def _escaped(hidden: re.Match[str]) -> str:
    """Returns characters as JSON can write them. Those that it must escape are escaped already."""
    found = hidden[0]
    return found if found == "\n" else json.dumps(found)[1:-1]


def write_answer(value: Any, words: str, *, as_json: bool) -> None:
    """Writes on stdout what programs are told, or else what people are."""
    if as_json:
        write_json(value)
    else:
        write_line(words)


def write_rows(rows: Sequence[Mapping[str, Any]], columns: Columns, *, as_json: bool, otherwise: str) -> None:
    """Writes rows of plain types on stdout: as JSON, as a table, or, if there are none, as the line
    `otherwise`. Programs get every key, people the columns, in which None is an empty cell."""
    if as_json:
        write_json(rows)
    elif rows:
        write_table(list(columns), [[_cell(row, of) for of in columns.values()] for row in rows])
    else:
        write_line(otherwise)


def _cell(row: Mapping[str, Any], of: str | Callable[[Mapping[str, Any]], str]) -> str:
    value = row[of] if isinstance(of, str) else of(row)
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def first_of(names: Sequence[str], most: int) -> str:
    """Returns at most so many of the names, and how many more there are, such as `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def write_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Writes a table on stdout. If a column's name begins with `>`, its values stand at the right."""
    table = Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for column in columns:
        table.add_column(
            column.removeprefix(">"), justify="right" if column.startswith(">") else "left", no_wrap=True
        )
    for row in rows:
        # Its cells are data: on a pipe nothing of them is cut off.
        table.add_row(*(printable(cell, _WIDTH_OF_PIPES) for cell in row))
    print_table(table)


def print_table(table: Table) -> None:
    """Writes a table on stdout. If the terminal is too narrow for it, its lines are broken, not cut off."""
    shown = console(sys.stdout)
    for column in table.columns:
        if column.no_wrap:
            # Rich would take the longest word for the least width.
            lines = [line for cell in (column.header, *column.cells) for line in str(cell).splitlines()]
            column.min_width = max(map(cell_len, lines), default=0)
    needed = shown.measure(table, options=shown.options.update(max_width=_WIDTH_OF_PIPES)).minimum
    shown.width = max(shown.width, needed)
    shown.print(table)


def write_outcomes(title: str, counts: Mapping[Outcome, int]) -> None:
    """Writes the outcome table of a harvest: a line per outcome, in the order of the documentation."""
    rows = [[outcome.value, f"{counts.get(outcome, 0):,}", meaning] for outcome, meaning in _MEANINGS.items()]
    write_table(["outcome", ">tiles", "meaning"], rows, title)


def console(file: Any) -> Console:
    """Returns a rich console that marks up nothing, and cuts nothing off if the output is no terminal."""
    return Console(
        file=file,
        width=None if file.isatty() else _WIDTH_OF_PIPES,
        markup=False,
        highlight=False,
        emoji=False,
    )


_MEANINGS = {
    Outcome.NOTHING: "nothing there, nothing known",
    Outcome.IGNORED: "unchanged by its ETag, not fetched",
    Outcome.SKIPPED: "not asked: nothing above it has changed",
    Outcome.NOT_MODIFIED: "fetched, and the same bytes",
    Outcome.UPDATED: "other bytes than before",
    Outcome.ADDED: "first version",
    Outcome.REPLACED: "changed again on the same day",
    Outcome.GONE: "was there, is there no more",
    Outcome.FAILED: "no usable answer; asked again next time",
}
