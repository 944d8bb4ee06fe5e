"""The import of a folder: a rendered map on this computer becomes a harvest of one day."""

from __future__ import annotations

import os
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.importers.snapshot import NoTilesError, folders_of_map
from tileharvest.renderers.site import UnrecognisedError
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date
    from pathlib import Path

    from tileharvest.importers.imported_map import ImportedMap, ImportWatch

SOURCE: Final = "folder"
"""The name of this source in the history. All folders share it, so that for a day the last imported folder
counts."""


class FolderSnapshot:
    """A folder on this computer as a `Snapshot`. Raises ConfigurationError if there is no such folder.

    The names of files are read once, at the start. A file that vanishes afterwards raises SiteError when it
    is read.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ConfigurationError(f"{folder} is not a folder; nothing was changed")
        self.name = f"folder {folder}"
        self._folder = str(folder)
        self._paths = frozenset(_files_below(self._folder))

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def validator(self, path: str) -> Validator:
        """Returns the file's time, as a server would give it, and no ETag. The time proves nothing, because
        copies of a folder lose the times."""
        try:
            modified = os.stat(f"{self._folder}/{path}").st_mtime  # noqa: PTH116 - a Path takes ten times as long
        except OSError:
            return Validator()
        return Validator(last_modified=formatdate(modified, usegmt=True))

    def read(self, paths: Sequence[str]) -> Iterator[bytes]:
        for path in paths:
            try:
                with open(f"{self._folder}/{path}", "rb", buffering=0) as file:  # noqa: PTH123
                    yield file.read()
            except OSError as error:
                raise SiteError(
                    f"{self._folder}/{path} cannot be read ({error.strerror}); the day was not imported, and"
                    " nothing was changed: make it readable and run again"
                ) from error

    def paths(self) -> frozenset[str]:
        return self._paths


def _files_below(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        prefix = place[len(folder) :].lstrip("/")
        prefix = f"{prefix}/" if prefix else ""
        yield from (f"{prefix}{name}" for name in names)


async def import_folder(imported: ImportedMap, folder: Path, day: date, watch: ImportWatch) -> None:
    """Imports the folder in which the map's page lies, in one transaction. Repeating it changes nothing.

    Raises ConfigurationError if there is no folder, SiteError if it has no map, no tile, or cannot be read,
    and MovedError if most tiles that are known of that day are missing.
    """
    snapshot = FolderSnapshot(folder)
    watch.expects(1)
    try:
        record = await imported.add(snapshot, None, day, snapshot.name)
    except (UnrecognisedError, NoTilesError) as error:
        found = folders_of_map(snapshot.paths(), error)
        within = [one for one in found if one != "."]
        hint = str(error)
        if within:
            hint = f"is it in {folder / within[0]}?"
        elif not snapshot.paths():
            hint = "the folder is empty"
        raise SiteError(f"no map was found in {folder}; nothing was changed: {hint}") from None
    watch.recorded(day, record)
    watch.passed(1)
