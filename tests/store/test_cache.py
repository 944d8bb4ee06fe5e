"""The cache on disk: it is bounded, may be deleted, and never returns anything that was not put."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tileharvest.store.cache import DiskCache

if TYPE_CHECKING:
    from pathlib import Path

BODY = b"x" * 1000


def files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def set_time(folder: Path, before: list[Path], seconds: int) -> None:
    """Give the files that are new since `before` a time."""
    for file in set(files(folder)) - set(before):
        os.utime(file, (seconds, seconds))


def test_what_was_put_is_there_also_for_the_next_process(tmp_path: Path) -> None:
    DiskCache(tmp_path, 10_000).put("a", BODY)
    assert DiskCache(tmp_path, 10_000).get("a") == BODY
    assert DiskCache(tmp_path, 10_000).get("b") is None


@pytest.mark.parametrize("damage", [b"", b"y" * 1032, BODY])
def test_a_damaged_file_is_not_there(tmp_path: Path, damage: bytes) -> None:
    cache = DiskCache(tmp_path, 10_000)
    cache.put("a", BODY)
    (file,) = files(tmp_path)
    file.write_bytes(damage)
    assert cache.get("a") is None
    assert files(tmp_path) == []


def test_what_was_not_asked_for_longest_makes_room(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 5 * 1032)
    for number in range(5):
        before = files(tmp_path)
        cache.put(str(number), BODY)
        set_time(tmp_path, before, number)
    assert cache.get("0") == BODY
    cache.put("5", BODY)
    assert {number for number in range(6) if cache.get(str(number)) is not None} == {0, 3, 4, 5}


def test_where_nothing_can_be_written_nothing_is_kept_and_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    cache = DiskCache(tmp_path / "cache", 10_000)
    cache.put("a", BODY)
    assert cache.get("a") is None
