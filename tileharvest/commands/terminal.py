"""How the commands write: data to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from rich.cells import cell_len
from rich.console import Console

from tileharvest.errors import HIDDEN, ExitStatus, StoppedError, TileHarvestError, printable

_WIDTH_OF_PIPES = 1_000_000
"""Columns of an output that is not a terminal. No line is that long, so nothing is cut off."""
_BETWEEN = "  "
"""What stands between two columns of a table."""


@contextlib.contextmanager
def failing_clearly(command: Any) -> Iterator[None]:
    """Writes a TileHarvestError of the block as one line on stderr, and sets the command's `exitcode`.

    Ctrl-C is not an error. When the reader of the output, such as `head`, has closed the pipe, nothing is
    written. The exit status alone shows that the output is not complete.
    """
    try:
        yield
        sys.stdout.flush()
    except StoppedError as stopped:
        say(str(stopped))
        command.exitcode = stopped.exit_status
    except KeyboardInterrupt:
        say("stopped")
        command.exitcode = ExitStatus.ERROR
    except TileHarvestError as error:
        write_error(str(error))
        command.exitcode = error.exit_status
    except OSError as error:
        close_output(error)
        command.exitcode = ExitStatus.ERROR


def close_output(error: OSError) -> None:
    """Drops what is still to be written on stdout, because its reader has closed the pipe, or the disk is
    full. Raises any other error.

    Python flushes stdout when it ends. That must not fail once more.
    """
    if error.errno not in (errno.EPIPE, errno.ENOSPC):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno == errno.ENOSPC:
        write_error("disk full: the output could not be written whole; free space, and run again")


@contextlib.contextmanager
def stopped_by_signals(said: str) -> Iterator[None]:
    """Raises StoppedError with the text `said` when SIGINT or SIGTERM comes while the block runs.

    Must be called in the main thread. Inside the block a signal is a KeyboardInterrupt, which code that
    catches every Exception does not catch, and the block can clean up. A second signal is ignored, because
    `timeout` sends each signal twice and must not interrupt the clean-up.
    """

    def stop(number: int, frame: Any) -> None:
        for which in before:
            signal.signal(which, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {which: signal.signal(which, stop) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(said) from None
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def write_error(message: str) -> None:
    """Writes one line on stderr."""
    sys.stderr.write(f"{printable(f'error: {message}')}\n")


def refuse(message: str) -> NoReturn:
    """Ends the process with a line on stderr about wrong usage."""
    write_error(message)
    sys.exit(ExitStatus.USAGE)


def say(line: str) -> None:
    """Writes one line for a person on stderr, and flushes it. The line is not an error."""
    sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()


def write_line(text: str) -> None:
    """Writes one line on stdout, whole."""
    sys.stdout.write(f"{printable(text, _WIDTH_OF_PIPES)}\n")


def write_json(value: Any) -> None:
    """Writes a value of plain types on stdout, for programs. Hidden characters are JSON's escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # A newline of the indentation stays one.
    escaped = HIDDEN.sub(lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], text)
    sys.stdout.write(f"{escaped}\n")


def table_of(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any], otherwise: str, spare: int = 0
) -> list[str]:
    """Returns the lines of a table of rows of plain types, or the line `otherwise` if there are none.

    `columns` has, by the head of a column, the key, or the function of a row, that gives a cell. None is an
    empty cell. `spare` is that of `table`.
    """
    cells = [[_cell(row, of) for of in columns.values()] for row in rows]
    return table(list(columns), cells, spare) if rows else [otherwise]


def _cell(row: Mapping[str, Any], of: Any) -> str:
    value = row[of] if isinstance(of, str) else of(row)
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def first_of(names: Sequence[str], most: int = 10) -> str:
    """Returns the first names, at most `most`, and how many more there are, such as `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], spare: int = 0) -> list[str]:
    """Returns the lines of a table. A column whose name begins with `>` is aligned to the right.

    On a terminal that is too narrow, the last `spare` columns are left out, one by one, until the table fits.
    Nothing else is cut off.
    """
    heads = [column.removeprefix(">") for column in columns]
    cells = [heads, *([printable(cell, _WIDTH_OF_PIPES) for cell in row] for row in rows)]
    widths = [max(map(cell_len, each)) for each in zip(*cells, strict=True)]
    most = console(sys.stdout).width
    while len(widths) > len(heads) - spare and sum(widths) + len(_BETWEEN) * (len(widths) - 1) > most:
        widths.pop()
    lines = []
    for row in cells:
        padded = []
        for column, cell, width in zip(columns, row, widths, strict=False):
            blank = " " * (width - cell_len(cell))
            padded.append(blank + cell if column.startswith(">") else cell + blank)
        lines.append(_BETWEEN.join(padded).rstrip())
    lines.insert(1, "─" * (sum(widths) + len(_BETWEEN) * (len(widths) - 1)))
    return lines


def console(file: Any) -> Console:
    """Returns a Rich console that reads no markup. It cuts nothing off unless the output is a terminal."""
    return Console(
        file=file,
        width=None if file.isatty() else _WIDTH_OF_PIPES,
        markup=False,
        highlight=False,
        emoji=False,
    )
