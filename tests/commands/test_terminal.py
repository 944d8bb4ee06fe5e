from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing, suppress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.commands.terminal import (
    console,
    failing_clearly,
    say,
    stopped_by_signals,
    write_error,
    write_json,
    write_line,
    write_outcomes,
    write_rows,
    write_table,
)
from tileharvest.errors import ConfigurationError, HistoryError, MovedError, StoppedError, printable
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.tiles.outcomes import Outcome, counts_as_plain


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_234_567, "1.2 MB"),
        (999_900_000, "999.9 MB"),
        (3_000_000_000, "3.0 GB"),
        (7_500_000_000_000, "7.5 TB"),
        (12_000_000_000_000_000, "12000.0 TB"),
    ],
)
def test_bytes_in_words(count: int, words: str) -> None:
    assert bytes_in_words(count) == words


@given(st.integers(0, 999_000_000_000_000))
def test_bytes_in_words_have_at_most_three_digits_before_the_point(count: int) -> None:
    assert re.fullmatch(r"\d{1,3}(\.\d)? (B|kB|MB|GB|TB)", bytes_in_words(count))


def test_bytes_that_round_up_to_the_next_unit_are_told_in_it() -> None:
    assert bytes_in_words(999_999) == "1.0 MB"


def test_a_table_has_a_line_per_row_below_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(["map", ">tiles"], [["world", "1,024"], ["end", "7"]])
    heading, _, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == ["map", "tiles"]
    assert (first, second) == ("world   1,024", "end         7")


@pytest.mark.parametrize("length", [300, 1000, 5000])
def test_on_a_pipe_nothing_is_cut_off(capsys: pytest.CaptureFixture[str], length: int) -> None:
    url = f"http://map.example.net/{'a' * length}/"
    write_table(["map", "url", "note"], [["world", url, "our survival server"]])
    assert capsys.readouterr().out.splitlines()[-1].split(maxsplit=2) == [
        "world",
        url,
        "our survival server",
    ]


@pytest.mark.parametrize("text", ["[bold]loud[/bold]", "[/]", "layer :x: of :warning:", "100 %", "🗺 Ünder"])
def test_what_a_user_wrote_is_shown_as_it_is(capsys: pytest.CaptureFixture[str], text: str) -> None:
    write_table(["note"], [[text]])
    assert capsys.readouterr().out.splitlines()[-1].strip() == text


def test_on_a_pipe_there_are_no_colours() -> None:
    file = io.StringIO()
    console(file).print("http://map.example.net 1,024 'text'", style="bold red")
    assert file.getvalue() == "http://map.example.net 1,024 'text'\n"


def test_the_outcome_table_has_every_outcome_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    write_outcomes({Outcome.IGNORED: 12345, Outcome.UPDATED: 7})
    _, _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["404", "0"],
        ["ign", "12,345"],
        ["skip", "0"],
        ["nMod", "0"],
        ["upd", "7"],
        ["add", "0"],
        ["rep", "0"],
        ["gone", "0"],
        ["fail", "0"],
    ]
    assert all(len(line.split()) > 3 for line in lines)


def test_counts_for_programs_leave_out_what_did_not_occur() -> None:
    counts = {Outcome.FAILED: 1, Outcome.GONE: 0, Outcome.IGNORED: 3, Outcome.NOTHING: 2}
    assert list(counts_as_plain(counts).items()) == [("404", 2), ("ign", 3), ("fail", 1)]


def test_json_is_on_stdout_and_readable(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"note": "Übersicht", "tiles": [1, None]})
    written = capsys.readouterr()
    assert json.loads(written.out) == {"note": "Übersicht", "tiles": [1, None]}
    assert "Übersicht" in written.out
    assert written.err == ""


def test_a_narrow_terminal_cuts_nothing_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    row = ["my server", "2026-11-20 finished", "https://map.example.net/a/long/address"]
    write_table(["map", "last harvest", "url"], [row])
    written = capsys.readouterr().out
    assert "   ".join(row) in written
    assert "…" not in written


@pytest.mark.parametrize(
    ("columns", "left"),
    [(79, ["map", "tiles", "url", "note"]), (60, ["map", "tiles", "url"]), (30, ["map", "tiles"])],
)
def test_a_narrow_terminal_leaves_out_the_columns_that_are_spare(
    columns: int, left: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    row = ["my server", "1,024", "https://map.example.net/an/address", "a note of some length"]
    write_table(["map", ">tiles", "url", "note"], [row], spare=2)
    lines = re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out).splitlines()
    assert lines[0].split() == left
    assert "   ".join(row[: len(left)]) == lines[2].rstrip()
    assert all(len(line) <= columns for line in lines)


def test_an_error_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    write_error("the map has moved")
    assert capsys.readouterr() == ("", "error: the map has moved\n")


@pytest.mark.parametrize(
    ("error", "status"),
    [(HistoryError("full"), 1), (ConfigurationError("no map"), 2), (MovedError("moved"), 5)],
)
def test_a_failure_becomes_a_line_and_an_exit_status(
    capsys: pytest.CaptureFixture[str], error: Exception, status: int
) -> None:
    command = SimpleNamespace(exitcode=0)
    with failing_clearly(command):
        raise error
    assert command.exitcode == status
    assert capsys.readouterr().err == f"error: {error}\n"


@pytest.mark.parametrize("stop", [StoppedError("stopped: nothing was made"), KeyboardInterrupt()])
def test_ctrl_c_is_not_called_an_error(capsys: pytest.CaptureFixture[str], stop: BaseException) -> None:
    command = SimpleNamespace(exitcode=0)
    with failing_clearly(command):
        raise stop
    assert command.exitcode == 1
    assert capsys.readouterr().err.startswith("stopped")


def test_a_reader_that_has_seen_enough_is_no_mistake() -> None:
    program = (
        "from types import SimpleNamespace as Command\n"
        "from tileharvest.commands.terminal import failing_clearly, write_line\n"
        "command = Command(exitcode=0)\n"
        "with failing_clearly(command):\n"
        "    write_line('x' * 1_000_000)\n"
        "raise SystemExit(command.exitcode)\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_bug_keeps_its_traceback() -> None:
    command = SimpleNamespace(exitcode=0)
    with pytest.raises(ZeroDivisionError), failing_clearly(command):
        raise ZeroDivisionError
    assert command.exitcode == 0


def test_without_a_failure_the_exit_status_stays() -> None:
    command = SimpleNamespace(exitcode=3)
    with failing_clearly(command):
        pass
    assert command.exitcode == 3


NASTY = "\x1b[31m\u202egnp\nerror: forged"
SHOWN = "\\x1b[31m\\u202egnp\\nerror: forged"


@pytest.mark.parametrize("write", [write_line, say, write_error])
def test_a_line_shows_nothing_that_steers_a_terminal(write, capsys):
    write(NASTY)
    written = capsys.readouterr()
    assert (written.out + written.err).removeprefix("error: ") == f"{SHOWN}\n"


def test_a_table_shows_nothing_that_steers_a_terminal(capsys):
    write_rows([{"layer": NASTY}], {"layer": "layer"}, as_json=False, otherwise="none")
    assert SHOWN in capsys.readouterr().out


def test_json_keeps_each_character_and_shows_none_that_steers_a_terminal(capsys):
    value = {"layer": NASTY + "\ud800\U000e0001 Z\u00fcrich"}
    write_json(value)
    written = capsys.readouterr().out
    assert json.loads(written) == value
    assert printable(written.replace("\n", "")) == written.replace("\n", "")
    assert "Z\u00fcrich" in written


def test_a_signal_ends_also_what_catches_every_error() -> None:
    # A shell that starts the tests in the background lets them ignore it.
    before = signal.getsignal(signal.SIGINT)
    with (
        pytest.raises(StoppedError, match="stopped: nothing was made"),
        stopped_by_signals("stopped: nothing was made"),
        suppress(Exception),
    ):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_signal_leaves_the_clean_up_alone_and_a_third_one_ends_it() -> None:
    reached = []

    def clean_up() -> None:
        for number in ("second", "third"):
            signal.raise_signal(signal.SIGTERM)
            reached.append(number)

    with (
        pytest.raises(StoppedError, match="stopped"),
        stopped_by_signals("stopped"),
        closing(SimpleNamespace(close=clean_up)),
    ):
        signal.raise_signal(signal.SIGINT)
    assert reached == ["second"]
