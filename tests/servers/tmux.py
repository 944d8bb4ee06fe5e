"""A terminal whose screen can be read as a person would see it: a pane of tmux."""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PATIENCE: Final = 120.0
"""Seconds in which the screen must show what is awaited."""
_LOOK: Final = 0.05


@dataclass(frozen=True, slots=True)
class Terminal:
    """A program that runs in a terminal. Its last screen stays when it ends."""

    command: Sequence[str]
    """The command of tmux, with the socket of a server of its own."""

    @property
    def screen(self) -> list[str]:
        """The lines of the screen from the top, without empty ones at the bottom."""
        return self._ask("capture-pane", "-p").rstrip().splitlines()

    def press(self, key: str) -> None:
        """Presses a key, such as `C-c`."""
        self._ask("send-keys", key)

    def await_screen(self, holds: Callable[[list[str]], bool]) -> list[str]:
        """Looks until the screen is as wanted, and returns it. Raises AssertionError with the last screen."""
        until = time.monotonic() + _PATIENCE
        pause = threading.Event()
        while not holds(screen := self.screen):
            assert time.monotonic() < until, "\n".join(screen)
            pause.wait(_LOOK)
        return screen

    def last_screen(self) -> list[str]:
        """Waits until the program has ended, and returns the screen that it left.

        Raises AssertionError with the last screen when it does not end.
        """
        self.await_screen(lambda _: self._ask("list-panes", "-F", "#{pane_dead}").strip() == "1")
        return self.screen

    def _ask(self, *words: str) -> str:
        return _run([*self.command, *words])


@contextmanager
def terminal(
    folder: Path,
    program: Sequence[str],
    *,
    environment: Mapping[str, str],
    workplace: Path,
    columns: int = 80,
) -> Iterator[Terminal]:
    """Runs the program in a terminal of 24 such lines and in `workplace`. It is killed when the block ends.

    tmux keeps its socket in `folder`. Raises RuntimeError where there is no tmux.
    """
    tmux = shutil.which("tmux")
    if tmux is None:
        raise RuntimeError("tmux is not installed; on Debian: apt-get install tmux")
    # -u means UTF-8, whatever the locale of the person who runs the tests.
    command = [tmux, "-u", "-S", str(folder / "tmux"), "-f", "/dev/null"]
    size = ["-x", str(columns), "-y", "24"]
    given = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
    # The pane must not end with its program, because the last screen would be lost.
    keeping = ["set-option", "-g", "remain-on-exit", "on", ";"]
    start = [*keeping, "new-session", "-d", *size, *given, "-c", str(workplace), *program]
    _run([*command, "start-server", ";", *start])
    try:
        yield Terminal(command)
    finally:
        _run([*command, "kill-server"])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=_PATIENCE, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[6:])}: {done.stderr}")
    return done.stdout
