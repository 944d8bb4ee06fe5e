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


Opening = Callable[[], TileStore]


def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    """Opens the same store each time, as a program does when it is started again. S3 is started only for
    tests that need it."""
    if request.param is S3Store:
        request.getfixturevalue("s3")
        return lambda: S3Store("tiles", "images")
    return (lambda: FileStore(tmp_path / "images")) if request.param is FileStore else DryStore


@pytest.fixture(params=[FileStore, S3Store])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    return opener(request, tmp_path)


@pytest.fixture(params=[FileStore, S3Store, DryStore])
def checking(request: pytest.FixtureRequest, tmp_path: Path) -> TileStore:
    return opener(request, tmp_path)()


def test_all_images_are_listed_with_their_sizes(opening: Opening) -> None:
    assert list(opening().held()) == []
    several = [f"image {number}".encode() * number for number in range(1, 40)]
    for body in several:
        opening().put({Image(sha1(body).hexdigest(), "webp", len(body)): body})
    assert {name: size for name, size, _ in opening().held()} == {
        f"{sha1(body).hexdigest()}.webp": len(body) for body in several
    }


def test_what_is_removed_is_there_no_more_and_can_be_put_again(opening: Opening) -> None:
    store = opening()
    other = Image(IMAGE.sha1, "jpg", IMAGE.size)
    store.put({IMAGE: BODY})
    store.put({other: BODY})
    opening().remove([IMAGE.file_name, f"{'0' * 40}.png"])
    assert [name for name, *_ in store.held()] == [other.file_name]
    assert store.put({IMAGE: BODY})
    assert store.named(IMAGE.file_name) == BODY


def test_many_images_are_put_at_once_and_only_the_new_ones_are_told(opening: Opening) -> None:
    bodies = [f"image {number}".encode() for number in range(40)]
    images = {Image(sha1(body).hexdigest(), "png", len(body)): body for body in bodies}
    opening().put(dict(islice(images.items(), 1)))
    store = opening()
    assert [store.put(images), store.put(images)] == [set(list(images)[1:]), set()]
    assert {image: opening().named(image.file_name) for image in images} == images


def test_many_threads_may_put_the_same_image(opening: Opening) -> None:
    store = opening()
    with ThreadPoolExecutor(8) as threads:
        new = list(threads.map(lambda _: store.put({IMAGE: BODY}), range(64)))
    assert any(new)
    assert store.named(IMAGE.file_name) == BODY


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        *((name, "png") for name in ("", "..", f"../{IMAGE.sha1[:37]}", f"/{IMAGE.sha1[:39]}", "١" * 40)),
        *(
            (name, "png")
            for name in (IMAGE.sha1[:-1], f"{IMAGE.sha1}0", f"{IMAGE.sha1}\n", IMAGE.sha1.upper())
        ),
        *((IMAGE.sha1, extension) for extension in ("", "gif", "PNG", "png/../..", "png\0")),
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
