"""The file of an export, whichever command writes it: what was there before stays until the file is whole."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.commands.running import run_here
from tests.export.conftest import Count, most_bytes_of_a_file
from tests.viewer.building import FIRST, MAP, SECOND, World
from tileharvest.errors import TileHarvestError
from tileharvest.export.archive import write_archive
from tileharvest.export.difference import write_difference
from tileharvest.export.excerpt import excerpt_of
from tileharvest.export.film import film_of, write_film
from tileharvest.export.mosaic import sheet_of, write_mosaic
from tileharvest.history.database import History
from tileharvest.store.files import FileStore


def write(path: Path, world: World, history: History, **limit: Any) -> None:
    excerpt = excerpt_of(history, MAP, first=str(FIRST), last=str(SECOND))
    if path.stem == "mosaic":
        write_mosaic(sheet_of(excerpt, path, 0, None), path, world.store, Count(), **limit)
    elif path.stem == "diff":
        write_difference(sheet_of(excerpt, path, 0, None), path, world.store, Count(), None, **limit)
    elif path.stem == "film":
        write_film(film_of(excerpt, path, (352, 352)), path, world.store, Count(), **limit)
    else:
        write_archive(excerpt, path, None, world.store, Count(), **limit)


@pytest.mark.parametrize(
    "name",
    [
        *("mosaic.png", "diff.png", "film.mp4", "film.webm", "film.webp", "film.gif"),
        *("archive.pmtiles", "archive.mbtiles", "archive.zip"),
    ],
)
def test_a_full_disk_and_too_large_a_file_leave_the_file_from_before(
    world: World, history: History, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"before")
    with most_bytes_of_a_file(1000), pytest.raises(TileHarvestError, match="the disk is full"):
        write(path, world, history)
    with pytest.raises(TileHarvestError, match=r"more than 1\.0 kB, the most that was allowed; nothing was"):
        write(path, world, history, most_bytes=1000)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == [name]  # noqa: PTH208 - hidden ones, too


@pytest.mark.parametrize("command", [("mosaic", "map.png"), ("film", "film.mp4"), ("archive", "map.pmtiles")])
def test_a_signal_ends_it_in_one_line_and_leaves_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, str]
) -> None:
    """It comes while an image is read."""
    read = FileStore.named

    def named(store: FileStore, name: str) -> bytes:
        os.kill(os.getpid(), signal.SIGTERM)
        return read(store, name)

    monkeypatch.setattr(FileStore, "named", named)
    (tmp_path / "maps.toml").touch()
    places = {"TILEHARVEST_MAPS": str(tmp_path / "maps.toml"), "TILEHARVEST_DATA": str(world.data)}
    done = run_here("tileharvest", (command[0], MAP, str(tmp_path / command[1])), places)
    end = "stopped: nothing was made, and what was there before is as it was"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, end)
    assert os.listdir(tmp_path) == ["maps.toml"]  # noqa: PTH208
