"""A published folder, brought to a bucket on S3."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore.exceptions import BaseError

from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.export.published_folder import INDEX, MARK, is_ours, map_in
from tileharvest.export.threads import each_in_order
from tileharvest.store.s3 import REQUEST, connected
from tileharvest.store.s3_errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tileharvest.export.picture_file import Watch

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
"""How often a request is made again. All of them may be: a file is put whole, and under a name for its
content."""
_FOR_EVER: Final = "max-age=31536000, immutable"
_AFTER_ASKING: Final = "no-cache"


@dataclass(slots=True)
class Mirrored:
    """What was brought to the bucket."""

    files: int = 0
    sent: int = 0
    bytes: int = 0
    """Sent."""
    removed: int = 0

    def as_plain(self) -> dict[str, Any]:
        """Returns what programs are told."""
        return asdict(self)


def mirror(folder: Path, bucket: str, prefix: str, watch: Watch) -> Mirrored:
    """Makes the bucket hold what the folder does: new files first, then the index; then what of ours is
    there no longer is removed.

    Names and sizes of what is there are read first. Raises TileHarvestError; then what was there before
    works as it did. Raises ConfigurationError where other files lie there.
    """
    place = f"s3://{bucket}/{prefix}".rstrip("/")
    above = f"{prefix}/" if prefix else ""
    objects = connected(bucket, REQUEST, retries=_RETRIES)
    try:
        there = {
            one["path"].removeprefix(above): one["size"]
            for part in obstore.list(objects, above or None, chunk_size=1000)
            for one in part
        }
        if there:
            mark = bytes(obstore.get(objects, above + MARK).bytes()) if MARK in there else b""
            if map_in(mark) is None or map_in(mark) != map_in((folder / MARK).read_bytes()):
                raise ConfigurationError(
                    f"{place} holds other files than this published map; nothing was sent: name a folder of"
                    f" its own"
                )
        done = Mirrored()
        new = [path for path in _files(folder) if is_new(path, folder, there)]
        watch.expects(len(new) + 1)

        def send(path: str) -> int:
            body = (folder / path).read_bytes()
            how = {"Content-Type": _KINDS.get(path[path.rfind(".") :], "application/octet-stream")}
            how["Cache-Control"] = _FOR_EVER if is_ours(path) else _AFTER_ASKING
            obstore.put(objects, above + path, body, attributes=how, use_multipart=False)
            return len(body)

        send(MARK)
        for size in each_in_order(send, new, _AT_ONCE):
            done.sent, done.bytes = done.sent + 1, done.bytes + size
            watch.passed()
        done.bytes += send(INDEX)
        done.sent += 1
        watch.passed()
        stays = set(_files(folder)) | {INDEX, MARK}
        done.files = len(stays)
        for path in there:
            if path not in stays and is_ours(path):
                obstore.delete(objects, above + path)
                done.removed += 1
    except (BaseError, ValueError, FileNotFoundError) as error:
        why = Refusal.of(error).line()
    else:
        return done
    raise TileHarvestError(
        f"{place} was not brought up to date, and what was there before works as it did: {why}"
    )


def is_new(path: str, folder: Path, there: dict[str, int]) -> bool:
    """Returns whether a file has to be sent. What is named by its content is the same if it is as large."""
    return not is_ours(path) or there.get(path) != (folder / path).stat().st_size


def _files(folder: Path) -> Iterator[str]:
    """Yields all files but the index, which is sent last, and the mark, which is sent first."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in (INDEX, MARK):
            yield name
