"""What every store keeps to. A dry run's store forgets, so it is bound only by the checks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha1
from typing import TYPE_CHECKING

import pytest

from tileharvest.errors import StoreError
from tileharvest.store.files import FileStore
from tileharvest.store.memory import DryStore
from tileharvest.versions import Image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tileharvest.store.port import TileStore

BODY = b"\x89PNG sea"
IMAGE = Image(sha1(BODY).hexdigest(), "png", len(BODY))


@pytest.fixture(params=[FileStore])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], TileStore]:
    """Opens the same store each time, as a program that is started again does."""
    return lambda: request.param(tmp_path / "images")


@pytest.fixture
def store(opening: Callable[[], TileStore]) -> TileStore:
    return opening()


@pytest.fixture(params=[FileStore, DryStore])
def checking(request: pytest.FixtureRequest, tmp_path: Path) -> TileStore:
    return DryStore() if request.param is DryStore else FileStore(tmp_path / "images")


def test_an_image_comes_back_as_it_was_put(store: TileStore) -> None:
    store.put(IMAGE, BODY)
    assert store.get(IMAGE) == BODY


def test_an_image_is_there_for_the_next_program(opening: Callable[[], TileStore]) -> None:
    opening().put(IMAGE, BODY)
    assert IMAGE in opening()
    assert opening().get(IMAGE) == BODY


def test_an_image_that_was_there_is_not_new(opening: Callable[[], TileStore]) -> None:
    store = opening()
    assert store.put(IMAGE, BODY)
    assert not store.put(IMAGE, BODY)
    assert not opening().put(IMAGE, BODY)


@pytest.mark.parametrize("extension", ["jpg", "webp"])
def test_the_same_bytes_under_another_extension_are_another_image(store: TileStore, extension: str) -> None:
    other = Image(IMAGE.sha1, extension, IMAGE.size)
    store.put(IMAGE, BODY)
    assert other not in store
    assert store.put(other, BODY)


def test_many_threads_may_put_the_same_image(store: TileStore) -> None:
    with ThreadPoolExecutor(8) as threads:
        new = list(threads.map(lambda _: store.put(IMAGE, BODY), range(64)))
    assert any(new)
    assert store.get(IMAGE) == BODY


def test_an_image_never_put_is_not_there(checking: TileStore) -> None:
    assert IMAGE not in checking


def test_an_image_never_put_cannot_be_read(checking: TileStore) -> None:
    with pytest.raises(StoreError, match=IMAGE.sha1):
        checking.get(IMAGE)


@pytest.mark.parametrize("body", [b"", BODY[:-1], BODY + b"\n", BODY[::-1]])
def test_other_bytes_than_the_image_s_are_refused(checking: TileStore, body: bytes) -> None:
    with pytest.raises(ValueError, match=f"are not image {IMAGE.sha1}"):
        checking.put(IMAGE, body)
    assert IMAGE not in checking


def test_a_new_image_is_new(checking: TileStore) -> None:
    assert checking.put(IMAGE, BODY)
