"""The store of plain files, and the cache on disk."""

import os
import resource
import time
from hashlib import sha1
from pathlib import Path

import pytest

from tileharvest.errors import StoreError
from tileharvest.store import files
from tileharvest.store.cache import DiskCache
from tileharvest.store.files import LEFTOVER_AGE, FileStore
from tileharvest.store.port import MissingImageError
from tileharvest.tiles.versions import Image

BODY = b"\x89PNG sea"
IMAGE = Image(sha1(BODY).hexdigest(), "png", len(BODY))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that does not exist, and whose parent does not exist either."""
    return tmp_path / "data" / "images"


def test_an_image_is_named_by_its_sha1(root: Path) -> None:
    FileStore(root).put({IMAGE: BODY})
    assert [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()] == [
        f"{IMAGE.sha1[:2]}/{IMAGE.sha1}.png"
    ]


def test_a_file_of_the_wrong_size_is_written_again(root: Path) -> None:
    store = FileStore(root)
    store.put({IMAGE: BODY})
    store.path(IMAGE).write_bytes(BODY[:2])
    assert store.put({IMAGE: BODY})
    assert store.named(IMAGE.file_name) == BODY


@pytest.mark.parametrize("damage", [b"", BODY[:-1], BODY + b"\n", BODY[::-1]])
def test_a_damaged_file_is_not_given_by_its_name(root: Path, damage: bytes) -> None:
    store = FileStore(root)
    store.put({IMAGE: BODY})
    store.path(IMAGE).write_bytes(damage)
    with pytest.raises(StoreError, match=r"is damaged, its sha1 is .*: restore it from a backup") as caught:
        store.named(IMAGE.file_name)
    assert not isinstance(caught.value, MissingImageError)


@pytest.mark.parametrize(("age", "is_kept"), [(LEFTOVER_AGE + 60, False), (LEFTOVER_AGE - 60, True)])
def test_a_clean_up_deletes_the_file_of_a_writer_killed_long_ago(
    root: Path, age: float, *, is_kept: bool
) -> None:
    file = FileStore(root).path(IMAGE)
    file.parent.mkdir(parents=True)
    temporary = file.with_name(f".{file.name}.0123456789abcdef.unfinished")
    temporary.write_bytes(BODY[:3])
    os.utime(temporary, (time.time() - age, time.time() - age))
    FileStore(root).remove([])
    assert temporary.exists() is is_kept


def test_a_disk_that_takes_a_part_of_an_image_has_nothing_of_it(root: Path) -> None:
    body = bytes(40_000)
    image = Image(sha1(body).hexdigest(), "png", len(body))
    store = FileStore(root)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(StoreError, match="nothing recorded was lost"):
            store.put({image: body})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [one for one in root.rglob("*") if one.is_file()] == []


@pytest.mark.parametrize(("number", "is_synced_whole"), [(1, False), (3, False), (40, False), (40, True)])
def test_a_power_cut_finds_no_name_without_bytes_and_takes_nothing_that_was_put(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, is_synced_whole: bool
) -> None:
    kept: set[str] = set()
    """What a power cut would leave: bytes and names that were synced."""
    named: dict[str, str] = {}
    rename = os.replace

    def renamed(temporary: str, place: str) -> None:
        assert temporary in kept, "a name for bytes that are not on the disk"
        rename(temporary, place)
        named[place] = os.path.dirname(place)  # noqa: PTH120 - as text, as the store has it

    def synced(place: str) -> None:
        kept.update([place], (name for name, folder in named.items() if folder == place))

    def synced_whole(descriptor: int) -> None:
        # It was opened before the files were written, or errors of the writes would not be raised.
        assert os.path.samestat(os.fstat(descriptor), root.stat())
        kept.update(str(file) for file in root.rglob("*"))

    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(files, "_sync", synced)
    monkeypatch.setattr(files, "_sync_file_system", synced_whole)
    monkeypatch.setattr(files, "_is_synced_whole", lambda _: is_synced_whole)
    bodies = [f"image {each}".encode() for each in range(number)]
    images = {Image(sha1(body).hexdigest(), "png", len(body)): body for body in bodies}
    store = FileStore(root)
    store.put(images)
    assert {str(store.path(image)) for image in images} <= kept
    # Those that another program has put may have been renamed only.
    kept.clear()
    FileStore(root).put(images)
    assert {str(store.path(image)) for image in images} <= kept


def test_a_file_system_that_promises_nothing_is_not_synced_as_a_whole() -> None:
    # That of /proc is none of those that are known.
    with Path("/proc/version").open("rb") as file:
        assert not files._is_synced_whole(file.fileno())


PICTURE = b"x" * 1000


def files_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def set_time(folder: Path, before: list[Path], seconds: int) -> None:
    """Give the files that are new since `before` a time."""
    for file in set(files_in(folder)) - set(before):
        os.utime(file, (seconds, seconds))


def test_what_was_put_is_there_also_for_the_next_process(tmp_path: Path) -> None:
    DiskCache(tmp_path, 10_000).put("a", PICTURE)
    assert DiskCache(tmp_path, 10_000).get("a") == PICTURE
    assert DiskCache(tmp_path, 10_000).get("b") is None


@pytest.mark.parametrize("damage", [b"", b"y" * 1032, PICTURE])
def test_a_damaged_file_is_not_there(tmp_path: Path, damage: bytes) -> None:
    cache = DiskCache(tmp_path, 10_000)
    cache.put("a", PICTURE)
    (file,) = files_in(tmp_path)
    file.write_bytes(damage)
    assert cache.get("a") is None
    assert files_in(tmp_path) == []


def test_what_was_not_asked_for_longest_makes_room(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 5 * 1032)
    for number in range(5):
        before = files_in(tmp_path)
        cache.put(str(number), PICTURE)
        set_time(tmp_path, before, number)
    assert cache.get("0") == PICTURE
    cache.put("5", PICTURE)
    assert {number for number in range(6) if cache.get(str(number)) is not None} == {0, 3, 4, 5}


def test_where_nothing_can_be_written_nothing_is_kept_and_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    cache = DiskCache(tmp_path / "cache", 10_000)
    cache.put("a", PICTURE)
    assert cache.get("a") is None
