from __future__ import annotations

import os
from hashlib import sha1
from typing import TYPE_CHECKING

import pytest

from tileharvest.errors import StoreError
from tileharvest.store.files import LEFTOVER_AGE, FileStore
from tileharvest.store.port import MissingImageError
from tileharvest.tiles.versions import Image

if TYPE_CHECKING:
    from pathlib import Path

BODY = b"\x89PNG sea"
IMAGE = Image(sha1(BODY).hexdigest(), "png", len(BODY))
NOW = 1_613_196_000.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Neither it nor its parent exist yet."""
    return tmp_path / "data" / "images"


def leftover(root: Path, age: float) -> Path:
    """As a writer that was killed before the rename leaves it."""
    file = FileStore(root).path(IMAGE)
    file.parent.mkdir(parents=True)
    temporary = file.with_name(f".{file.name}.0123456789abcdef.unfinished")
    temporary.write_bytes(BODY[:3])
    os.utime(temporary, (NOW - age, NOW - age))
    return temporary


def test_an_image_is_named_by_its_sha1(root: Path) -> None:
    FileStore(root).put(IMAGE, BODY)
    assert [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()] == [
        f"{IMAGE.sha1[:2]}/{IMAGE.sha1}.png"
    ]


def test_opening_creates_nothing(root: Path) -> None:
    FileStore(root)
    assert not root.parent.exists()


def test_a_file_of_the_wrong_size_is_written_again(root: Path) -> None:
    store = FileStore(root)
    store.put(IMAGE, BODY)
    store.path(IMAGE).write_bytes(BODY[:2])
    assert store.put(IMAGE, BODY)
    assert store.named(IMAGE.file_name) == BODY


def test_a_file_that_was_deleted_is_written_again(root: Path) -> None:
    store = FileStore(root)
    store.put(IMAGE, BODY)
    store.path(IMAGE).unlink()
    assert store.put(IMAGE, BODY)
    assert store.named(IMAGE.file_name) == BODY


@pytest.mark.parametrize("damage", [b"", BODY[:-1], BODY + b"\n", BODY[::-1]])
def test_a_damaged_file_is_not_given_by_its_name(root: Path, damage: bytes) -> None:
    store = FileStore(root)
    store.put(IMAGE, BODY)
    store.path(IMAGE).write_bytes(damage)
    with pytest.raises(StoreError, match=r"is damaged, its sha1 is .*: restore it from a backup") as caught:
        store.named(IMAGE.file_name)
    assert not isinstance(caught.value, MissingImageError)


def test_a_folder_in_the_place_of_an_image_cannot_be_read(root: Path) -> None:
    store = FileStore(root)
    store.path(IMAGE).mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot be read: Is a directory"):
        store.named(IMAGE.file_name)


def test_read_only_gives_what_another_program_puts(root: Path) -> None:
    reader = FileStore(root, read_only=True)
    FileStore(root).put(IMAGE, BODY)
    assert reader.named(IMAGE.file_name) == BODY


def test_read_only_takes_nothing(root: Path) -> None:
    with pytest.raises(StoreError, match="was opened to be read only; nothing was written"):
        FileStore(root, read_only=True).put(IMAGE, BODY)
    assert not root.parent.exists()


def test_read_only_deletes_nothing(root: Path) -> None:
    temporary = leftover(root, age=LEFTOVER_AGE + 1)
    FileStore(root, clock=lambda: NOW, read_only=True)
    assert temporary.exists()


def test_the_file_of_a_killed_writer_is_no_image(root: Path) -> None:
    leftover(root, age=0)
    store = FileStore(root)
    with pytest.raises(MissingImageError):
        store.named(IMAGE.file_name)
    assert store.put(IMAGE, BODY)


def test_the_file_of_a_writer_killed_long_ago_is_deleted(root: Path) -> None:
    temporary = leftover(root, age=LEFTOVER_AGE + 1)
    FileStore(root, clock=lambda: NOW)
    assert not temporary.exists()


def test_the_file_of_a_writer_that_may_live_is_kept(root: Path) -> None:
    temporary = leftover(root, age=LEFTOVER_AGE - 1)
    FileStore(root, clock=lambda: NOW)
    assert temporary.exists()


def test_images_are_never_deleted_however_old(root: Path) -> None:
    store = FileStore(root)
    store.put(IMAGE, BODY)
    os.utime(store.path(IMAGE), (0, 0))
    assert FileStore(root).named(IMAGE.file_name) == BODY


def test_a_file_in_the_way_of_the_folder_is_one_clear_line(root: Path) -> None:
    root.parent.write_text("in the way")
    with pytest.raises(StoreError) as caught:
        FileStore(root).put(IMAGE, BODY)
    assert str(caught.value) == (
        f"the store {root} cannot be written or read (Not a directory); nothing recorded was lost; make"
        " the folder and what is in it writable and run again"
    )


def test_a_rename_that_fails_leaves_no_temporary_file(root: Path) -> None:
    store = FileStore(root)
    store.path(IMAGE).mkdir(parents=True)
    with pytest.raises(StoreError):
        store.put(IMAGE, BODY)
    assert list(store.path(IMAGE).parent.iterdir()) == [store.path(IMAGE)]
