"""What no version names any more is removed from the store, and nothing else. The truth is what the folder
holds."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest
from msgspec.structs import replace

from tests.history.making import put_empty_history
from tests.middlewares.making import DAY, LATER, NOW, added, drawn, image_of, opened
from tileharvest.errors import StoreError
from tileharvest.harvest.clean_up import clean_up, note
from tileharvest.history.database import History
from tileharvest.history.recorded_versions import named_images
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tileharvest.tiles.versions import Image

TILE: Final = Tile(-1, -2, 2)
A_DAY: Final = timedelta(days=1)
FIRST, SECOND, THIRD = (drawn(name) for name in ("first", "second", "third"))


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    put_empty_history(tmp_path / "history.sqlite")
    with History.open(f"sqlite:///{tmp_path / 'history.sqlite'}") as history:
        yield history


async def harvested(folder: Path, days: int, *bodies: bytes) -> None:
    """A complete harvest, so many days later, in which the tile had one body after the other."""
    async with opened(folder, DAY + days * A_DAY, now=NOW + days * A_DAY) as harvest:
        await harvest.keep(added(TILE, bodies[0]))
        for body in bodies[1:]:
            await harvest.keep(replace(added(TILE, body), outcome=Outcome.REPLACED))
        await harvest.finish()


def held(folder: Path) -> set[str]:
    return {one.name for one in FileStore(folder / "tiles").held()}


def orphan(folder: Path, body: bytes, days: int) -> Image:
    """Puts an image that no version names, and that is so many days old at NOW."""
    store, image = FileStore(folder / "tiles"), image_of(body)
    store.put({image: body})
    age = (NOW - days * A_DAY).timestamp()
    os.utime(store.path(image), (age, age))
    return image


def names(*bodies: bytes) -> set[str]:
    return {image_of(body).file_name for body in bodies}


def test_a_complete_harvest_removes_what_the_one_of_the_day_before_has_replaced(tmp_path: Path) -> None:
    asyncio.run(harvested(tmp_path, 0, FIRST, SECOND))
    assert held(tmp_path) == names(FIRST, SECOND)
    asyncio.run(harvested(tmp_path, 1, SECOND, THIRD))
    assert held(tmp_path) == names(SECOND, THIRD)


def test_a_harvest_that_is_not_complete_removes_nothing(tmp_path: Path) -> None:
    async def stop() -> None:
        async with opened(tmp_path, LATER, now=NOW + A_DAY) as harvest:
            await harvest.keep(added(TILE, THIRD))
            await harvest.stop("budget: 1 request")

    asyncio.run(harvested(tmp_path, 0, FIRST, SECOND))
    asyncio.run(stop())
    assert held(tmp_path) == names(FIRST, SECOND, THIRD)


def test_what_was_removed_and_is_there_again_is_removed_once_that_is_forgotten(
    tmp_path: Path, history: History
) -> None:
    """As after a kill behind putting it, or where the store was restored. Nothing else is noted meanwhile."""
    store = FileStore(tmp_path / "tiles")
    asyncio.run(harvested(tmp_path, 0, FIRST))
    orphan(tmp_path, SECOND, days=2)
    note(history, store, [one for one in store.held() if one.name in names(SECOND)])
    assert clean_up(history, store, NOW) == 1
    orphan(tmp_path, SECOND, days=2)
    note(history, store, [one for one in store.held() if one.name in names(SECOND)])
    for days in (1, 80, 100):
        assert clean_up(history, store, NOW + days * A_DAY) == 0
    note(history, store, [one for one in store.held() if one.name in names(SECOND)])
    assert clean_up(history, store, NOW + 100 * A_DAY) == 1
    assert held(tmp_path) == names(FIRST)


def test_what_is_younger_than_a_day_stays(tmp_path: Path, history: History) -> None:
    store = FileStore(tmp_path / "tiles")
    asyncio.run(harvested(tmp_path, 0, FIRST))
    orphan(tmp_path, SECOND, days=2)
    orphan(tmp_path, THIRD, days=0)
    note(history, store, [one for one in store.held() if one.name in names(SECOND, THIRD)])
    assert clean_up(history, store, NOW) == 1
    assert held(tmp_path) == names(FIRST, THIRD)


@pytest.mark.parametrize("is_late", [False, True], ids=["once", "once more, late"])
def test_an_image_that_is_removed_before_its_row_is_put_again(
    tmp_path: Path, history: History, monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> None:
    """A harvest finds an image in the store. Before it has recorded its row, a clean-up removes the image.

    A removal that is late, such as one that S3 carries out after it was given up, comes before the end.
    """
    put, image = FileStore.put, image_of(FIRST)
    cleaned: list[int] = []

    def put_and_lose(store: FileStore, images: Mapping[Image, bytes]) -> set[Image]:
        new = put(store, images)
        if image in images and not cleaned:
            assert image not in new
            cleaned.append(clean_up(history, store, NOW))
            assert not store.path(image).exists()
        return new

    async def harvest_it() -> None:
        async with opened(tmp_path) as harvest:
            orphan(tmp_path, FIRST, days=2)
            store = FileStore(tmp_path / "tiles")
            note(history, store, store.held())
            with monkeypatch.context() as patch:
                patch.setattr(FileStore, "put", put_and_lose)
                await asyncio.gather(
                    harvest.keep(added(TILE, FIRST)),
                    harvest.keep(added(Tile(-1, 2, 2), FIRST)),
                    harvest.keep(added(Tile(-1, 2, -2), SECOND)),
                )
            if is_late:
                store.path(image).unlink()
            await harvest.finish()

    asyncio.run(harvest_it())
    assert cleaned == [1]
    assert {one.image.file_name for one in named_images(history)} == held(tmp_path) == names(FIRST, SECOND)


def test_a_store_that_two_histories_use_is_not_cleaned_and_that_is_warned_of(
    tmp_path: Path, history: History, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(harvested(tmp_path, 0, FIRST, SECOND))
    FileStore(tmp_path / "tiles").join("another")
    asyncio.run(harvested(tmp_path, 1, SECOND))
    (line,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert line.startswith("images that no version names stay in the store: another history uses")
    with pytest.raises(StoreError, match=r"another history uses the same store, .* nothing was removed"):
        clean_up(history, FileStore(tmp_path / "tiles"), NOW + A_DAY)
    assert held(tmp_path) == names(FIRST, SECOND)


def test_a_store_with_images_from_before_it_knew_its_histories_is_not_cleaned(
    tmp_path: Path, history: History
) -> None:
    image = orphan(tmp_path, FIRST, days=2)
    store = FileStore(tmp_path / "tiles")
    with pytest.raises(StoreError, match="nothing was removed: harvest once with each history"):
        note(history, store, store.held())
    (tmp_path / "tiles" / ".history-unknown").unlink()
    note(history, store, store.held())
    assert clean_up(history, store, NOW) == 1
    assert not store.path(image).exists()
