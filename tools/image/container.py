"""A container: runs an image's command as an engine would, with its user, its files and its first process."""

# ruff: noqa: S603, S108 -- it runs what the Dockerfile says, with Debian's programs

from __future__ import annotations

import itertools
import os
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.image.build import in_root

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import IO, Self

    from tools.image.build import Image

_NUMBERS: Final = itertools.count(1)
_LOOK: Final = 0.05
"""Seconds between two looks."""


@dataclass(slots=True)
class Container:
    """A container with a read-only root and a /tmp of its own, as in compose.yaml.

    The command is process 1 itself. There is no init, which makes signals harder for it, not easier.
    """

    image: Image
    command: Sequence[str]
    volumes: Mapping[str, tuple[Path, str]]
    """The folders of this computer by the path inside, each with `rw` or `ro`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    outside: subprocess.Popen[bytes] | None = None
    log: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def __enter__(self) -> Self:
        self.outside = subprocess.Popen(
            [
                # It is killed with this check, whatever ends that; and with it all that runs inside.
                *("setpriv", "--pdeathsig", "KILL"),
                *(
                    "unshare",
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "--uts",
                    "--mount",
                    "--propagation",
                    "private",
                ),
                *("sh", "-c", f"{self._mounts()} && exec {shlex.join(self._words(self._start()))}"),
            ],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.outside is not None
        if self.outside.poll() is None:
            self.outside.kill()
            self.outside.wait()
        self.log.close()

    @property
    def output(self) -> str:
        """What the command has written until now, errors included."""
        length = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), length, 0).decode(errors="replace")

    @property
    def runs(self) -> bool:
        assert self.outside is not None
        return self.outside.poll() is None

    def wait(self, patience: float) -> int:
        """Waits for the end and returns the exit status.

        Raises AssertionError with the container's output if it still runs after `patience` seconds.
        """
        assert self.outside is not None
        try:
            return self.outside.wait(patience)
        except subprocess.TimeoutExpired:
            words = self.output
        raise AssertionError(f"{' '.join(self.command)} has not ended in {patience} s, and wrote:\n{words}")

    def stop(self, patience: float) -> tuple[int, float]:
        """Stops it as `docker stop` does. Returns the exit status, and the seconds that it took.

        Raises AssertionError as `wait` does.
        """
        began = time.monotonic()
        os.kill(self._first(), signal.Signals[self.image.settings.stop_signal])
        return self.wait(patience), time.monotonic() - began

    def run(self, *words: str) -> tuple[int, str]:
        """Runs a further command inside, as `docker exec` does. Returns its exit status and its output."""
        inside = ["nsenter", "--target", str(self._first()), "--mount", "--pid", "--"]
        done = subprocess.run(
            [*inside, *self._words(words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout.decode()

    def health(self) -> tuple[int, str]:
        """Returns the exit status and the output of the image's own HEALTHCHECK.

        A container that has no process yet is not healthy.
        """
        try:
            return self.run(*self.image.settings.healthcheck)
        except ProcessLookupError:
            return 1, "it has no process yet"

    def _start(self) -> list[str]:
        settings = self.image.settings
        return [*settings.entrypoint, *(self.command or settings.command)]

    def _words(self, command: Sequence[str]) -> list[str]:
        settings = self.image.settings
        environment = settings.environment | dict(self.environment)
        return in_root(self.image.root, settings.user, settings.folder, environment, list(command))

    def _mounts(self) -> str:
        root = shlex.quote(str(self.image.root))
        # Each container has a name of its own, by which workers know each other.
        lines = [f"echo box-{next(_NUMBERS)} > /proc/sys/kernel/hostname", f"mount --bind {root} {root}"]
        for inside, (folder, mode) in self.volumes.items():
            place = f"{root}{inside}"
            lines.append(f"mount --bind {shlex.quote(str(folder))} {place}")
            if mode == "ro":
                lines.append(f"mount -o remount,bind,ro {place}")
        lines += [
            f"mount -t tmpfs tmpfs {root}/tmp",
            f"mount -t proc proc {root}/proc",
            f"mount --bind /dev {root}/dev",
            f"mount -o remount,bind,ro {root}",
        ]
        return " && ".join(lines)

    def _first(self) -> int:
        """Returns the number that process 1 of the container has outside.

        Raises ProcessLookupError while there is no such process.
        """
        assert self.outside is not None
        # setpriv has become unshare, and process 1 is unshare's only child.
        children = Path(f"/proc/{self.outside.pid}/task/{self.outside.pid}/children").read_text()
        if not children:
            raise ProcessLookupError(f"{' '.join(self.command)} has no process")
        return int(children.split()[0])


def await_(what: Callable[[], Any], container: Container, patience: float, wanted: str) -> Any:
    """Asks until the answer is true, and returns that answer.

    Raises AssertionError with the container's output after `patience` seconds, or when the container ends.
    """
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            if answer := what():
                return answer
        except OSError:
            # The program inside does not listen yet.
            pass
        if not container.runs:
            break
        time.sleep(_LOOK)
    state = "it runs" if container.runs else "it has ended"
    raise AssertionError(f"{wanted}: not within {patience} s; {state}, and wrote:\n{container.output}")
