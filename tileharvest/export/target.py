"""The file of an export, which gets its name when it is whole, and who watches it grow."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Protocol

from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.maps.budgets import bytes_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

_NOT_MADE: Final = "was not made, and nothing of it was left"
_ANOTHER_DISK: Final = "free space, or write it elsewhere"
_ANOTHER_FOLDER: Final = "name a folder that is there and can be written"


def ending_of(path: Path, known: Iterable[str], kind: str) -> str:
    """Returns the name's ending in small letters. Raises ConfigurationError if it is not a known one."""
    if (ending := path.suffix.lower()) not in known:
        raise ConfigurationError(
            f"{path.name or path} is not a name for {kind}: end it with {', '.join(known)}; nothing was made"
        )
    return ending


class Watch(Protocol):
    """Somebody who watches how an export gets on."""

    note: str
    """A text beside the numbers: the bytes that the file has so far."""

    def expects(self, parts: int) -> None:
        """Learns how many parts the export has."""

    def passed(self, parts: int = 1) -> None:
        """Learns that more parts are done."""


@dataclass(slots=True)
class GrowingFile:
    """The unfinished file of an export. The watch learns how many bytes it has."""

    file: BinaryIO
    target: Path
    watch: Watch
    most_bytes: int | None

    def passed(self, parts: int = 1, beside: int = 0) -> None:
        """Notes that parts are done. `beside` is the bytes that still lie elsewhere.

        Raises TileHarvestError if the file has more bytes than are allowed.
        """
        size = os.fstat(self.file.fileno()).st_size + beside
        if self.most_bytes is not None and size > self.most_bytes:
            raise TileHarvestError(
                f"{self.target} would have more than {bytes_in_words(self.most_bytes)}, the most that was"
                " allowed; nothing was made, and what was there before is as it was"
            )
        self.watch.note = bytes_in_words(size)
        self.watch.passed(parts)


@contextmanager
def made_whole(target: Path, watch: Watch, most_bytes: int | None = None) -> Iterator[GrowingFile]:
    """Opens a file beside the target. When the block ends, the file replaces the target.

    If the block raises or is stopped, the file is removed and the target stays as it was. Raises
    TileHarvestError with one line if the disk is full or the folder cannot be written, or if the file has
    more than `most_bytes`. What a killed program has left of the target is removed.
    """
    beside = target.with_name(f".{target.name}.{token_hex(4)}.unfinished")
    with writing_to(target):
        for left in target.parent.glob(f".{escape(target.name)}.*.unfinished"):
            # One that somebody is writing is locked.
            with suppress(OSError), left.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()
        try:
            with beside.open("xb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                growing = GrowingFile(file, target, watch, most_bytes)
                yield growing
                file.flush()
                growing.passed(0)
                os.fsync(file.fileno())
            beside.replace(target)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise


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
