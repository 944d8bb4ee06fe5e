"""The contract of stores. The store of a dry run keeps nothing, so only the checks apply to it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha1
from itertools import islice
from pathlib import Path

import pytest

from tileharvest.store.files import FileStore
from tileharvest.store.port import DryStore, MissingImageError, TileStore
from tileharvest.store.s3 import S3Store
from tileharvest.tiles.versions import Image

BODY = b"\x89PNG sea"
IMAGE = Image(sha1(BODY).hexdigest(), "png", len(BODY))


def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], TileStore]:
    """Opens stores of the kind that the test asks for. S3 is started only for tests that need it."""
    if request.param is S3Store:
        request.getfixturevalue("s3")
        return lambda: S3Store("tiles", "images")
    if request.param is FileStore:
        return lambda: FileStore(tmp_path / "images")
    return DryStore


@pytest.fixture(params=[FileStore, S3Store])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], TileStore]:
    """Opens the same store each time, as a program does when it is started again."""
    return opener(request, tmp_path)


@pytest.fixture
def store(opening: Callable[[], TileStore]) -> TileStore:
    return opening()


@pytest.fixture(params=[FileStore, S3Store, DryStore])
def checking(request: pytest.FixtureRequest, tmp_path: Path) -> TileStore:
    return opener(request, tmp_path)()


def test_an_image_is_there_for_the_next_program(opening: Callable[[], TileStore]) -> None:
    opening().put({IMAGE: BODY})
    assert opening().named(IMAGE.file_name) == BODY


def test_all_images_are_listed_with_their_sizes(opening: Callable[[], TileStore]) -> None:
    assert list(opening().held()) == []
    several = [f"image {number}".encode() * number for number in range(1, 40)]
    for body in several:
        opening().put({Image(sha1(body).hexdigest(), "webp", len(body)): body})
    assert {name: size for name, size, _ in opening().held()} == {
        f"{sha1(body).hexdigest()}.webp": len(body) for body in several
    }


def test_what_is_removed_is_there_no_more_and_can_be_put_again(opening: Callable[[], TileStore]) -> None:
    store = opening()
    other = Image(IMAGE.sha1, "jpg", IMAGE.size)
    store.put({IMAGE: BODY})
    store.put({other: BODY})
    opening().remove([IMAGE.file_name, f"{'0' * 40}.png"])
    assert [name for name, *_ in store.held()] == [other.file_name]
    assert store.put({IMAGE: BODY})
    assert store.named(IMAGE.file_name) == BODY


def test_many_images_are_put_at_once_and_only_the_new_ones_are_told(
    opening: Callable[[], TileStore],
) -> None:
    bodies = [f"image {number}".encode() for number in range(40)]
    images = {Image(sha1(body).hexdigest(), "png", len(body)): body for body in bodies}
    opening().put(dict(islice(images.items(), 1)))
    store = opening()
    assert store.put(images) == set(list(images)[1:])
    assert store.put(images) == set()
    assert {image: opening().named(image.file_name) for image in images} == images


def test_a_wrong_one_among_many_images_is_refused(checking: TileStore) -> None:
    wrong = Image("0" * 40, "png", len(BODY))
    with pytest.raises(ValueError, match="are not image"):
        checking.put({IMAGE: BODY, wrong: BODY})
    with pytest.raises(MissingImageError):
        checking.named(wrong.file_name)


@pytest.mark.parametrize("extension", ["jpg", "webp"])
def test_the_same_bytes_under_another_extension_are_another_image(store: TileStore, extension: str) -> None:
    other = Image(IMAGE.sha1, extension, IMAGE.size)
    store.put({IMAGE: BODY})
    with pytest.raises(MissingImageError):
        store.named(other.file_name)
    assert store.put({other: BODY})


def test_many_threads_may_put_the_same_image(store: TileStore) -> None:
    with ThreadPoolExecutor(8) as threads:
        new = list(threads.map(lambda _: store.put({IMAGE: BODY}), range(64)))
    assert any(new)
    assert store.named(IMAGE.file_name) == BODY


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("", "png"),
        ("..", "png"),
        (f"../{IMAGE.sha1[:37]}", "png"),
        (f"/{IMAGE.sha1[:39]}", "png"),
        (IMAGE.sha1[:-1], "png"),
        (f"{IMAGE.sha1}0", "png"),
        (f"{IMAGE.sha1}\n", "png"),
        (IMAGE.sha1.upper(), "png"),
        (f"{IMAGE.sha1[:-1]}\0", "png"),
        ("١" * 40, "png"),
        (IMAGE.sha1, ""),
        (IMAGE.sha1, "gif"),
        (IMAGE.sha1, "PNG"),
        (IMAGE.sha1, "png/../.."),
        (IMAGE.sha1, "png\0"),
    ],
)
def test_what_can_be_no_image_s_name_is_refused(checking: TileStore, name: str, extension: str) -> None:
    with pytest.raises(ValueError, match="is not a sha1"):
        checking.named(f"{name}.{extension}")


@pytest.mark.parametrize("body", [b"", BODY[:-1], BODY + b"\n", BODY[::-1]])
def test_other_bytes_than_the_image_s_are_refused(checking: TileStore, body: bytes) -> None:
    with pytest.raises(ValueError, match=f"are not image {IMAGE.sha1}"):
        checking.put({IMAGE: body})
    with pytest.raises(MissingImageError):
        checking.named(IMAGE.file_name)
