"""With a real file system that is full: needs the right to mount one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.history.making import EVERYWHERE, began, found, record
from tileharvest.errors import HistoryError, StoreError
from tileharvest.history.database import History
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tileharvest.tiles.results import TileResult

MEGABYTE = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if sys.platform != "linux" or mount is None or subprocess.run(command, check=False).returncode != 0:
        pytest.skip("only the administrator of a Linux system can mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def row_of_tiles(y: int) -> list[TileResult]:
    return [found("add", Tile(0, x, y), body=f"{x}_{y}".encode()) for x in range(1, 401, 2)]


def test_a_full_disk_is_one_clear_line_and_loses_nothing(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk / 'history.sqlite'}"
    recorded = 0

    def record_for_ever() -> None:
        nonlocal recorded
        for y in range(1, 2001, 2):
            record(harvest, row_of_tiles(y))
            recorded += 200

    with History.open(url) as history:
        harvest = began(history)
        with pytest.raises(HistoryError) as caught:
            record_for_ever()
    assert str(caught.value) == (
        f"disk full: the history {small_disk / 'history.sqlite'} could not be written; nothing recorded"
        " was lost; free space and run again"
    )
    shutil.copytree(small_disk, small_disk.parent / "larger")
    with History.open(f"sqlite:///{small_disk.parent / 'larger' / 'history.sqlite'}") as history:
        assert began(history).known(EVERYWHERE) == recorded > 0


def test_no_history_begins_on_a_full_disk(small_disk: Path) -> None:
    fill(small_disk / "ballast")
    with pytest.raises(HistoryError, match="disk full"):
        History.open(f"sqlite:///{small_disk / 'history.sqlite'}")


def test_a_store_on_a_full_disk_says_so_and_keeps_no_part_of_the_image(small_disk: Path) -> None:
    store = FileStore(small_disk)
    small, large = found("add", body=b"sea"), found("add", body=bytes(2 * MEGABYTE))
    store.put({small.image: small.body})
    with pytest.raises(StoreError) as caught:
        store.put({large.image: large.body})
    assert str(caught.value) == (
        f"disk full: the store {small_disk} took no image; nothing recorded was lost;"
        " free space and run again"
    )
    assert [path.name for path in small_disk.rglob("*") if path.is_file()] == [f"{small.image.sha1}.png"]
    assert store.named(small.image.file_name) == b"sea"


def fill(file: Path) -> None:
    def write_for_ever() -> None:
        with file.open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))

    with pytest.raises(OSError, match="No space left"):
        write_for_ever()
