"""Snapshots: the files of a map's site as they were at one moment, and how a renderer reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from tileharvest.errors import SiteError, program
from tileharvest.renderers.registry import RENDERERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tileharvest.tiles.versions import Validator


_LFS_POINTER: Final = b"version https://git-lfs"
"""The first bytes of a pointer of Git LFS: a file that stands for another one, which git itself does not
have."""

_SHOWN: Final = [renderer.files[0] for renderer in RENDERERS.values() if renderer.files][:2]
NO_SIGN: Final = (
    f"it has none of the files that renderers write beside a map's page, such as {' or '.join(_SHOWN)}"
)
"""The words for a place without such a file. The errors of renderers would speak of sites and their
addresses."""


class Snapshot(Protocol):
    """The files of a site at one moment. Paths are relative to the map's page and begin with no slash."""

    @property
    def name(self) -> str:
        """The snapshot's name in messages."""
        ...

    def __contains__(self, path: str) -> bool: ...

    def validator(self, path: str) -> Validator:
        """Returns the validator of an existing file. It has an ETag only if the ETag is made of the bytes; a
        tile with a known ETag need not be read."""
        ...

    def read(self, paths: Sequence[str]) -> Iterator[bytes]:
        """Yields the bytes of existing files, in this order. Raises SiteError."""
        ...

    def paths(self) -> Iterable[str]:
        """Returns all paths, in no order."""
        ...


class LfsPointerError(SiteError):
    """A snapshot has a pointer of Git LFS in place of a file."""


def refuse_pointer(body: bytes, path: str, place: str) -> None:
    """Raises LfsPointerError if the bytes are a pointer of Git LFS."""
    if body.startswith(_LFS_POINTER):
        raise LfsPointerError(
            f"{path} in {place} is a Git-LFS pointer, not the file itself, and git alone cannot fetch that;"
            " what was recorded before is kept, and nothing of this state was: check the files out with"
            f" `git lfs pull`, and use: {program()} import folder"
        )


def is_configuration(path: str) -> bool:
    """Returns whether a file has the name of a file that a renderer's probe reads."""
    name = path.rpartition("/")[2]
    return any(file.rpartition("/")[2] == name for renderer in RENDERERS.values() for file in renderer.files)


def maps_within(paths: Iterable[str]) -> list[str]:
    """Returns the folders that seem to have a map, by the files that renderers write.

    A longer name is a surer sign: any program may have a `config.js`. So only the folders with the longest
    name are returned. The top of the tree is `.`.
    """
    signs = sorted({sign for one in RENDERERS.values() for sign in one.files[:1]}, key=len, reverse=True)
    found: dict[str, int] = {}
    for path in paths:
        sign = next((sign for sign in signs if f"/{path}".endswith(f"/{sign}")), None)
        if sign is not None:
            folder = path.removesuffix(sign).rstrip("/") or "."
            found[folder] = max(len(sign), found.get(folder, 0))
    surest = max(found.values(), default=0)
    return sorted(
        (folder for folder, length in found.items() if length == surest),
        key=lambda one: (one.count("/"), one),
    )
