"""The demo's data folder: emptied on each run, and therefore only ever one that the demo made."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tileharvest.errors import ConfigurationError

MARKER: Final = ".tileharvest-demo"
"""A file that says: the demo made this folder and may empty it."""
MAP: Final = "demo"


def fresh_data_folder(folder: Path) -> None:
    """Make the folder, or empty it if an earlier demo made it.

    Raises ConfigurationError, having touched nothing, if anything else is there.
    """
    if folder.is_symlink() or (folder.exists() and not _may_be_emptied(folder)):
        raise ConfigurationError(
            f"{folder} was not made by the demo, so nothing in it was touched;"
            " name a folder that is empty or does not exist yet: --data FOLDER"
        )
    folder.mkdir(parents=True, exist_ok=True)
    # The marker comes first and goes never: a run that ends half-way leaves a folder that is still ours.
    (folder / MARKER).touch()
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARKER:
            path.unlink()


def _may_be_emptied(folder: Path) -> bool:
    return folder.is_dir() and ((folder / MARKER).is_file() or not any(folder.iterdir()))


def write_maps_file(folder: Path, url: str) -> Path:
    """`maps.toml` with the demo's map as its only entry.

    Without an audit, which draws by lot: what a harvest counts is to be predicted.
    """
    file = folder / "maps.toml"
    entry = f'[{MAP}]\nurl = "{url}"\ntimezone = "UTC"\naudit = 0  # so that the counts can be predicted\n'
    file.write_text(entry, encoding="utf-8")
    return file


def project_folder() -> Path:
    """The folder that holds `scrapy.cfg`, from which the `scrapy` commands work.

    Raises ConfigurationError where the package was installed without it.
    """
    for folder in Path(__file__).resolve().parents:
        if (folder / "scrapy.cfg").is_file():
            return folder
    raise ConfigurationError("no folder above the package holds scrapy.cfg: run it from a full checkout")
