"""Boxes: small computers for workers, each of which may use only a part of a core.

Two cores cannot show how four workers add up that need a core each. Four workers with a tenth of a core each
can show it: then the worker limits the rate, as on a box of its own, and not this computer. Boxes need Linux'
control groups, and the right to make some.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUPS: Final = Path("/sys/fs/cgroup")
_PERIOD: Final = 20_000
"""Microseconds in which a box may use its part once. Answers take far longer to come to a worker."""


class Box:
    """One small computer: a control group."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take_in(self, process: int) -> None:
        """Moves the process into the box, but not the processes that it has started already.

        Raises OSError where the process is gone.
        """
        (self._folder / "cgroup.procs").write_text(str(process))

    def limit(self, cores: float) -> None:
        quota = round(cores * _PERIOD)
        if (self._folder / "cpu.max").exists():
            (self._folder / "cpu.max").write_text(f"{quota} {_PERIOD}")
        else:
            (self._folder / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (self._folder / "cpu.cfs_quota_us").write_text(str(quota))


@contextmanager
def boxes(number: int, cores: float) -> Iterator[list[Box]]:
    """Makes so many boxes, each with its part of a core, until the block ends.

    All processes in them must have ended by then. Raises OSError where the kernel has no control groups for
    the processor, or does not let us make one.
    """
    # Version 1 of control groups has a folder of its own for the processor.
    root = _GROUPS / "cpu" if (_GROUPS / "cpu").is_dir() else _GROUPS
    with ExitStack() as made:
        found = []
        for each in range(number):
            folder = root / f"tileharvest-bench-{os.getpid()}-{each}"
            folder.mkdir()
            made.callback(folder.rmdir)
            box = Box(folder)
            box.limit(cores)
            found.append(box)
        yield found


def can_make_boxes() -> bool:
    try:
        with boxes(1, 1.0):
            return True
    except OSError:
        return False
