"""Runs programs of which one call to the system fails, and makes what a power cut leaves of their files."""

import errno
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.end_to_end.project import Project

KINDS: Final = ("write", "fsync", "rename", "open", "unlink")
"""The kinds of calls, in the order of `failing_calls.c`. Each includes its relatives: `pwrite` is a write,
`fdatasync` and `syncfs` are an fsync."""
ERRORS: Final = (errno.ENOSPC, errno.EIO, errno.EINTR, errno.EACCES, errno.EDQUOT)
KILL: Final = 0
"""Takes the place of an error: the process is killed after the call."""
SHORT: Final = -1
"""Takes the place of an error: the call writes half of its bytes and says so, as on a nearly full disk."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The failure of one call on a project's data folder."""

    kind: str
    number: int
    """Which call of the kind fails, counted from 1. 0: none does."""
    error: int = KILL
    lasting: bool = False
    """True: all later calls of the kind fail as well, as on a disk that stays full."""

    def __str__(self) -> str:
        names = {KILL: "SIGKILL", SHORT: "half", **errno.errorcode}
        name = names[self.error]
        return f"{name} from {self.kind} {self.number}{' on' if self.lasting else ''}"


NONE: Final = Fault("write", 0)


@dataclass(frozen=True, slots=True)
class Run:
    """The end of a program that was run with a fault."""

    status: int
    said: str
    """All of stderr."""
    calls: dict[str, int]
    """How many calls of each kind the program made on the project's data folder."""

    def met(self, fault: Fault) -> bool:
        """Returns whether the program made the call that was to fail. It may end before: how often it writes
        to a database depends on how many results are recorded together."""
        return self.calls[fault.kind] >= fault.number


def environment(folder: Path, data: Path, fault: Fault, disk: Path | None = None) -> dict[str, str]:
    """Returns the environment of a program of which this call on its data folder fails. `folder` gets the
    library and the counts of calls. The folder `disk` gets a copy of all that is flushed; see `flushed`."""
    library, source = folder / "failing_calls.so", Path(__file__).with_name("failing_calls.c")
    if not library.exists():
        options = "-O1 -Wall -Wextra -Werror -shared -fPIC -ldl -lpthread"
        subprocess.run(["gcc", str(source), "-o", str(library), *options.split()], check=True)
    calls = folder / "calls"
    calls.write_bytes(bytes(4 * len(KINDS)))
    told = f"{KINDS.index(fault.kind)} {fault.number} {fault.error} {int(fault.lasting)} {data}"
    places = {"LD_PRELOAD": str(library), "FAULT": told, "FAULT_CALLS": str(calls)}
    return places if disk is None else places | {"FAULT_DISK": str(disk)}


def run(folder: Path, project: Project, fault: Fault, *arguments: str, disk: Path | None = None) -> Run:
    """Runs `scrapy ARGUMENTS` with a fault. It starts from nothing, as the library must be loaded first."""
    done = project.scrapy_from_nothing(*arguments, **environment(folder, project.data, fault, disk))
    counted = memoryview((folder / "calls").read_bytes()).cast("I").tolist()
    return Run(done.returncode, done.stderr, dict(zip(KINDS, counted, strict=True)))


def flushed(data: Path, disk: Path) -> None:
    """Makes the folder `disk`, a copy of the data folder as a disk has it on which everything is flushed."""
    disk.mkdir()
    for path in (data, *data.rglob("*")):
        number = path.stat().st_ino
        if path.is_file():
            shutil.copyfile(path, disk / str(number))
            continue
        entries = [
            f"{one.stat().st_ino} {'d' if one.is_dir() else 'f'} {one.name}\n" for one in path.iterdir()
        ]
        (disk / f"{number}.folder").write_text("".join(entries), encoding="utf-8")


def cut_power(data: Path, disk: Path) -> None:
    """Turns the data folder into what was flushed of it: bytes of files, and names in folders. A real disk
    forgets less."""
    number = data.stat().st_ino
    shutil.rmtree(data)
    _restore(number, data, disk)


def _restore(number: int, folder: Path, disk: Path) -> None:
    folder.mkdir()
    entries = disk / f"{number}.folder"
    for line in entries.read_text(encoding="utf-8").splitlines() if entries.exists() else ():
        inode, kind, name = line.split(" ", 2)
        if kind == "d":
            _restore(int(inode), folder / name, disk)
        elif (disk / inode).exists():
            shutil.copyfile(disk / inode, folder / name)
        else:
            (folder / name).touch()
