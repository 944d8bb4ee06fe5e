"""The file of an export, which gets its name when it is whole."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from tileharvest.errors import TileHarvestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

UNSURE: Final = 0.2
"""The share by which a file may be smaller or larger than its parts foretell."""
_NOT_MADE: Final = "was not made, and nothing of it was left"
_ANOTHER_DISK: Final = "free space, or write it elsewhere"
_ANOTHER_FOLDER: Final = "name a folder that is there and can be written"


@contextmanager
def made_whole(target: Path) -> Iterator[BinaryIO]:
    """Opens a file beside the target. When the block ends, the file replaces the target.

    If the block raises or is stopped, the file is removed and the target stays as it was. Raises
    TileHarvestError with one line if the disk is full or the folder cannot be written.
    """
    beside = target.with_name(f".{target.name}.{token_hex(4)}.unfinished")
    with writing_to(target):
        try:
            with beside.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise


@contextmanager
def parts_of(target: Path) -> Iterator[Path]:
    """Yields the name for files that are parts of the target. They are removed when the block ends.

    They lie beside the target, on the disk that was chosen for it. Raises TileHarvestError as `made_whole`
    does.
    """
    with (
        writing_to(target),
        tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as beside,
    ):
        yield Path(beside) / f"part{target.suffix}"


@contextmanager
def writing_to(
    target: Path, kept: str = _NOT_MADE, when_full: str = _ANOTHER_DISK, otherwise: str = _ANOTHER_FOLDER
) -> Iterator[None]:
    """Turns an OSError in the block into a TileHarvestError with one line. The line says what was `kept`, and
    what to do: `when_full` if the disk is full, `otherwise` after any other error."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            why = f"the disk is full: {when_full}"
        else:
            why = f"{error.strerror or error}: {otherwise}"
        raise TileHarvestError(f"{target} {kept}: {why}") from error
