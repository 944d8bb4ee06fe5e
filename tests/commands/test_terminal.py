"""What the commands write: data on stdout, everything else on stderr, and nothing that steers a terminal."""

import json
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Final

import pytest

from tileharvest.commands.terminal import (
    failing_clearly,
    say,
    stopped_by_signals,
    table,
    write_error,
    write_json,
    write_line,
)
from tileharvest.errors import ConfigurationError, HistoryError, MovedError, StoppedError, printable

NASTY: Final = "\x1b[31m\u202egnp\nerror: forged"
SHOWN: Final = "\\x1b[31m\\u202egnp\\nerror: forged"


@pytest.mark.parametrize("text", ["[bold]loud[/bold]", "layer :x: 🗺 Ünder", f"http://h/{'a' * 5000}/"])
def test_on_a_pipe_a_cell_is_shown_whole_and_as_it_is(capsys: pytest.CaptureFixture[str], text: str) -> None:
    write_line(table(["note"], [[text]])[-1])
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.parametrize(
    ("columns", "left"),
    [(79, ["map", "tiles", "url", "note"]), (60, ["map", "tiles", "url"]), (5, ["map", "tiles"])],
)
def test_a_narrow_terminal_leaves_out_the_columns_that_are_spare_and_cuts_nothing_off(
    columns: int, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    row = ["my server", "1,024", "https://map.example.net/an/address", "a note of some length"]
    lines = table(["map", ">tiles", "url", "note"], [row], spare=2)
    assert lines[0].split() == left
    assert lines[2] == "  ".join(row[: len(left)])


@pytest.mark.parametrize("write", [write_line, say, write_error])
def test_a_line_shows_nothing_that_steers_a_terminal(
    write: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    write(NASTY)
    written = capsys.readouterr()
    assert (written.out + written.err).removeprefix("error: ") == f"{SHOWN}\n"


def test_json_keeps_each_character_and_shows_none_that_steers_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    value = {"layer": NASTY + "\ud800\U000e0001 Z\u00fcrich", "tiles": [1, None]}
    write_json(value)
    written = capsys.readouterr().out
    assert json.loads(written) == value
    assert printable(written.replace("\n", "")) == written.replace("\n", "")
    assert "Z\u00fcrich" in written


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (HistoryError("full"), 1, "error: full"),
        (ConfigurationError("no map"), 2, "error: no map"),
        (MovedError("moved"), 5, "error: moved"),
        (StoppedError("stopped: nothing was made"), 1, "stopped: nothing was made"),
        (KeyboardInterrupt(), 1, "stopped"),
    ],
)
def test_a_failure_is_one_line_on_stderr_and_an_exit_status_and_ctrl_c_is_not_called_an_error(
    capsys: pytest.CaptureFixture[str], error: BaseException, status: int, line: str
) -> None:
    command = SimpleNamespace(exitcode=0)
    with failing_clearly(command):
        raise error
    assert command.exitcode == status
    assert capsys.readouterr() == ("", f"{line}\n")


def test_a_signal_ends_the_work_and_a_second_one_leaves_the_clean_up_alone() -> None:
    # A shell that starts the tests in the background lets them ignore it.
    before, reached = signal.getsignal(signal.SIGINT), []

    def clean_up() -> None:
        signal.raise_signal(signal.SIGTERM)
        reached.append("its end")

    with (
        pytest.raises(StoppedError, match="nothing was made"),
        stopped_by_signals("nothing was made"),
        closing(SimpleNamespace(close=clean_up)),
    ):
        signal.raise_signal(signal.SIGINT)
    assert reached == ["its end"]
    assert signal.getsignal(signal.SIGINT) is before
