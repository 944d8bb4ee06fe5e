"""The mirror of a published folder in a bucket on S3."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore.exceptions import BaseError

from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.export.published_folder import FOLDERS, INDEX, MARK, NO_JEKYLL, held, is_ours, map_in
from tileharvest.pictures.threads import each_in_order, open_threads
from tileharvest.store.s3 import REQUEST, connected
from tileharvest.store.s3_errors import Refusal

if TYPE_CHECKING:
    from pathlib import Path

    from tileharvest.export.target import Watch

_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
}
_AT_ONCE: Final = 8
_RETRIES: Final = 5
"""The number of times that a failed request is repeated. Every request may be repeated, because a file is put
as a whole, under a name for its content."""
_FOR_EVER: Final = "max-age=31536000, immutable"
_AFTER_ASKING: Final = "no-cache"


@dataclass(slots=True)
class Mirrored:
    """The counts of a mirror that was brought up to date."""

    files: int = 0
    sent: int = 0
    bytes: int = 0
    """The bytes that were sent."""
    removed: int = 0

    def as_plain(self) -> dict[str, Any]:
        """Returns the counts as a value of plain types, for `--json`."""
        return asdict(self)


def mirror(folder: Path, bucket: str, prefix: str, watch: Watch) -> Mirrored:
    """Brings the published files of a folder to the bucket: first the new files, then the index. Then files
    of ours that the folder no longer has are removed from the bucket. Files of others stay.

    Reads the names and sizes in the bucket first. Raises ConfigurationError if other files lie there. Raises
    TileHarvestError, which says whether the bucket has the new index or works as before.
    """
    bringing = _Bringing(folder, bucket, prefix, watch)
    try:
        with held(folder) as mark:
            bringing.all(mark.read())
    except ConfigurationError:
        raise
    except (BaseError, ValueError) as error:
        why = Refusal.of(error).line()
    except OSError as error:
        why = f"{error.filename or folder}: {error.strerror or error}"
    except TileHarvestError as error:
        why = str(error)
    else:
        return bringing.done
    if bringing.is_out:
        raise TileHarvestError(
            f"{bringing.place} is up to date, but files that nothing names any more are left there: {why};"
            " the next --mirror removes them"
        )
    raise TileHarvestError(
        f"{bringing.place} was not brought up to date, and what was there before works as it did: {why}"
    )


class _Bringing:
    """The transfer of a folder to a bucket."""

    def __init__(self, folder: Path, bucket: str, prefix: str, watch: Watch) -> None:
        self.place = f"s3://{bucket}/{prefix}".rstrip("/")
        self.done = Mirrored()
        self.is_out = False
        """Whether the bucket has the new index."""
        self._folder, self._watch = folder, watch
        self._above = f"{prefix}/" if prefix else ""
        self._objects = connected(bucket, REQUEST, retries=_RETRIES)

    def all(self, mark: bytes) -> None:
        """Brings all files. `mark` is the content of the folder's mark."""
        done = self.done
        there = self._there()
        theirs = map_in(self._mark(there)) if there else map_in(mark)
        if theirs is None or theirs != map_in(mark):
            raise ConfigurationError(
                f"{self.place} holds other files than this published map; nothing was sent: name a folder"
                " of its own"
            )
        published = _files(self._folder)
        new = [path for path in published if is_new(path, self._folder, there)]
        self._watch.expects(len(new) + 1)
        self._send(MARK)
        with open_threads(_AT_ONCE, "mirror") as pool:
            for size in each_in_order(pool, self._send, new, 4 * _AT_ONCE):
                done.sent, done.bytes = done.sent + 1, done.bytes + size
                self._watch.passed()
        done.bytes += self._send(INDEX)
        self.is_out = True
        done.sent += 1
        self._watch.passed()
        stays = {*published, INDEX, MARK}
        done.files = len(stays)
        for path in there:
            if path not in stays and is_ours(path):
                obstore.delete(self._objects, self._above + path)
                done.removed += 1

    def _there(self) -> dict[str, int]:
        """Returns the sizes of the bucket's files by their paths."""
        parts = obstore.list(self._objects, self._above or None, chunk_size=1000)
        return {one["path"].removeprefix(self._above): one["size"] for part in parts for one in part}

    def _mark(self, there: dict[str, int]) -> bytes:
        return bytes(obstore.get(self._objects, self._above + MARK).bytes()) if MARK in there else b""

    def _send(self, path: str) -> int:
        body = (self._folder / path).read_bytes()
        how = {"Content-Type": _KINDS.get(path[path.rfind(".") :], "application/octet-stream")}
        how["Cache-Control"] = _FOR_EVER if is_ours(path) else _AFTER_ASKING
        obstore.put(self._objects, self._above + path, body, attributes=how, use_multipart=False)
        return len(body)


def is_new(path: str, folder: Path, there: dict[str, int]) -> bool:
    """Returns whether a file has to be sent. A file that is named by its content is the same if its size
    is."""
    return not is_ours(path) or there.get(path) != (folder / path).stat().st_size


def _files(folder: Path) -> list[str]:
    """Returns the paths of the published files, without the mark, which is sent first, and the index, which
    is sent last. Other files in the folder are never sent: a `.git` may hold a password."""
    every = (path for name in FOLDERS for path in (folder / name).rglob("*"))
    names = (path.relative_to(folder).as_posix() for path in every if path.is_file())
    ours = [name for name in names if is_ours(name) and not name.endswith(".unfinished")]
    return [*ours, *(name for name in (NO_JEKYLL,) if (folder / name).is_file())]
