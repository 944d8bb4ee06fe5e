"""A published folder in a bucket, beside what lies in the folder."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.export.island import noise
from tests.export.test_mosaic import Count
from tests.export.test_published_folder import files, publish
from tests.servers.s3 import S3, lead_to, s3
from tests.viewer.building import FIRST, SECOND, World
from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.export.mirror import mirror
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def running() -> Iterator[S3]:
    with s3() as opened:
        yield opened


@pytest.fixture
def bucket(running: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """An S3 with the empty bucket `past`."""
    running.start_over("past")
    lead_to(running.url, monkeypatch)
    return running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    world = World(tmp_path / "world")
    world.harvest(FIRST, {Tile(0, 1, 1): noise(1), Tile(0, 3, 1): noise(2)})
    publish(world, tmp_path / "out")
    return tmp_path / "out"


def held(bucket: S3, folder: Path, prefix: str = "/my/map/") -> dict[str, bytes]:
    """What the bucket has of these files."""
    replies = {name: bucket.ask("GET", f"/past{prefix}{name}") for name in files(folder)}
    return {name: reply.body for name, reply in replies.items() if reply.status == 200}


def test_a_bucket_gets_all_files_with_their_kinds(bucket: S3, folder: Path) -> None:
    told = mirror(folder, "past", "my/map", Count())
    assert held(bucket, folder) == files(folder)
    assert told.files == told.sent + 1 == len(files(folder))
    page = bucket.ask("HEAD", "/past/my/map/index.html").headers
    assert (page["Content-Type"], page["Cache-Control"]) == ("text/html; charset=utf-8", "no-cache")
    image = next(name for name in files(folder) if name.startswith("images/"))
    headers = bucket.ask("HEAD", f"/past/my/map/{image}").headers
    assert headers["Content-Type"] == "image/png"
    assert "immutable" in headers["Cache-Control"]


def test_only_what_is_new_is_sent_again(bucket: S3, folder: Path, tmp_path: Path) -> None:
    mirror(folder, "past", "", Count())
    before = files(folder)
    world = World(tmp_path / "later")
    shutil.copytree(tmp_path / "world" / "data", tmp_path / "later" / "data")
    world.harvest(SECOND, {Tile(0, 1, 1): noise(3)})
    publish(world, folder)
    bucket.ask("PUT", "/past/images/mine.png", b"mine")
    told = mirror(folder, "past", "", Count())
    assert held(bucket, folder, "/") == files(folder)
    new = files(folder).keys() - before.keys()
    # The index, and the file for GitHub.
    assert told.sent == len(new) + 2
    gone = before.keys() - files(folder).keys()
    assert told.removed == len(gone) > 0
    assert {bucket.ask("GET", f"/past/{name}").status for name in gone} == {404}
    assert bucket.ask("GET", "/past/images/mine.png").body == b"mine"


def test_files_of_others_are_no_place_for_a_map(bucket: S3, folder: Path) -> None:
    bucket.ask("PUT", "/past/my/map/letter.txt", b"dear")
    with pytest.raises(ConfigurationError, match="s3://past/my/map holds other files than this"):
        mirror(folder, "past", "my/map", Count())
    assert held(bucket, folder) == {}


def test_files_of_others_stay_at_home(bucket: S3, folder: Path) -> None:
    before = files(folder)
    secret = ("images/ab/.git/config", ".git/config", "notes.txt", "page/own/x.js", "lists/mine.js")
    for name in (*secret, f"images/ab/.{'ab' * 20}.png.unfinished"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"token")
    told = mirror(folder, "past", "my/map", Count())
    assert held(bucket, folder) == before
    assert told.files == len(before)


def test_a_file_that_cannot_be_read_is_one_line(bucket: S3, folder: Path) -> None:
    (folder / "index.html").unlink()
    (folder / "index.html").mkdir()
    with pytest.raises(TileHarvestError, match=r"works as it did: .*index\.html: Is a directory") as raised:
        mirror(folder, "past", "my/map", Count())
    assert "\n" not in str(raised.value)
