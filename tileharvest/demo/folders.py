"""The demo's data folder, with its `maps.toml`.

Each run empties the data folder. Therefore it takes only one that the demo itself has made.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

MARKER: Final = ".tileharvest-demo"
"""The name of a file that says: the demo made this folder and may empty it."""
MAP: Final = "demo"


def fresh_data_folder(folder: Path) -> None:
    """Makes the folder, or empties it if an earlier demo made it.

    Raises ConfigurationError if anything else is there; then nothing was touched.
    """
    if folder.is_symlink() or (folder.exists() and not _may_be_emptied(folder)):
        raise ConfigurationError(
            f"{folder} was not made by the demo, so nothing in it was touched;"
            " name a folder that is empty or does not exist yet: --data FOLDER"
        )
    folder.mkdir(parents=True, exist_ok=True)
    # The marker is made first and never removed, so a run that ends half-way leaves a folder of the demo's.
    (folder / MARKER).touch()
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARKER:
            path.unlink()


def _may_be_emptied(folder: Path) -> bool:
    return folder.is_dir() and ((folder / MARKER).is_file() or not any(folder.iterdir()))


def write_maps_file(folder: Path, url: str, renderer: str = "overviewer") -> Path:
    """Writes a `maps.toml` with the demo's map as its only entry, and returns its path.

    The audit is switched off: it draws tiles by lot, and the counts of a harvest are to be predicted.
    """
    file = folder / "maps.toml"
    drawn = "" if renderer == "overviewer" else f'renderer = "{renderer}"\n'
    entry = (
        f'[{MAP}]\nurl = "{url}"\n{drawn}timezone = "UTC"\naudit = 0  # so that the counts can be predicted\n'
    )
    file.write_text(entry, encoding="utf-8")
    return file
