"""Workers: several processes at once, and the cost of each."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from bench.cost import Cost, RunFailedError
from bench.harvest import PROJECT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.boxes import Box

_LOOK: Final = 0.05
"""Seconds between two looks whether workers have ended, and how long they have been idle. What is idle may
be off by so much."""


class Workers:
    """Several processes of the same program. They live in a `with` block, and none outlives it."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: Path,
        boxes: Sequence[Box | None],
    ) -> None:
        """Prepares a worker for each box, or for each None. `output` is a folder, which is made."""
        output.mkdir()
        self._command = command
        self._environment = os.environ | dict(environment)
        self._outputs = [output / f"{number}.log" for number in range(len(boxes))]
        self._boxes = boxes
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ended: dict[int, Cost] = {}
        self._idle = [0.0] * len(boxes)

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        for output, box in zip(self._outputs, self._boxes, strict=True):
            with output.open("wb") as file:
                process = subprocess.Popen(
                    self._command,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    cwd=PROJECT,
                    env=self._environment,
                )
            self._processes.append(process)
            if box is not None:
                box.take_in(process.pid)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.kill()
                process.wait()

    def ask_to_end(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.terminate()

    def expect_running(self) -> None:
        """Raises RunFailedError for a worker that ended with an error."""
        for number, process in enumerate(self._processes):
            if process.returncode is None:
                self._idle[number] = time.monotonic() - self._started - _busy(process.pid)
                self._look_at(number, process)

    def costs(self, patience: float) -> list[Cost]:
        """Waits until all workers have ended, and returns the cost of each.

        Raises RunFailedError, with the end of the output, for a worker that ended with an error, and when not
        all have ended after `patience` seconds.
        """
        end = time.monotonic() + patience
        while len(self._ended) < len(self._processes):
            if time.monotonic() > end:
                raise self._failure(0, f"did not end within {patience:.0f} s")
            time.sleep(_LOOK)
            self.expect_running()
        return [self._ended[number] for number in sorted(self._ended)]

    @property
    def idle(self) -> list[float]:
        """Seconds in which each worker's event loop had nothing to do: it neither ran nor waited for a core.

        To be asked after `costs`."""
        return self._idle

    def output(self) -> list[str]:
        return [output.read_text(encoding="utf-8", errors="replace") for output in self._outputs]

    def _look_at(self, number: int, process: subprocess.Popen[bytes]) -> None:
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        if not ended:
            return
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise self._failure(number, f"ended with {process.returncode}")
        wall = time.monotonic() - self._started
        self._ended[number] = Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)

    def _failure(self, number: int, what: str) -> RunFailedError:
        words = ""
        with suppress(OSError):
            words = self.output()[number][-2000:]
        return RunFailedError(f"worker {number} {what}: {' '.join(self._command)}\n{words}")


def _busy(process: int) -> float:
    """Returns the seconds in which the process's first thread ran, or was ready to and had no core."""
    ran, waited, _ = Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()
    return (int(ran) + int(waited)) / 1e9
