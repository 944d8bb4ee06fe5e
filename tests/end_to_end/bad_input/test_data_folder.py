"""Data folders that cannot be written, and histories of which a page is damaged: exit status 1, one line, and
the data stay as they are."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    PATHS,
    SECOND_DAY,
    Stage,
    drawn,
    visit,
)
from tests.end_to_end.project import contents

SMALL = 896 * 1024
"""The size in bytes of a disk with room for a queue, a history and some of the tiles."""


@pytest.mark.parametrize("part", ["", "tiles"])
def test_a_file_in_place_of_the_data_folder_or_the_store(stage: Stage, part: str) -> None:
    place = stage.project.data / part
    place.parent.mkdir(exist_ok=True)
    place.write_text("a note", encoding="utf-8")
    done = visit(stage.project, FIRST_DAY)
    assert done.status == 1
    assert str(place) in done.error
    assert place.read_text(encoding="utf-8") == "a note"
    place.unlink()
    assert visit(stage.project, FIRST_DAY).counts == {"add": 20}


def test_a_full_disk_keeps_what_was_recorded_and_the_next_run_goes_on(stage: Stage) -> None:
    """Not all images fit on the disk. They come one by one, with pauses longer than the time for which
    results are gathered, so that some are recorded before the disk is full."""
    for path in PATHS:
        stage.files.write(path, drawn(path, pixels=128))
    stage.project.data.mkdir()
    one_by_one = ("-s", "CONCURRENT_REQUESTS=1", "-s", "DOWNLOAD_DELAY=0.06", "-s", "DOWNLOAD_DELAY_JITTER=0")
    with mounted(stage.project.data, f"size={SMALL}"):
        done = visit(stage.project, FIRST_DAY, *one_by_one)
        assert done.status == 1
        assert done.error.startswith("disk full: ")
        recorded = stage.project.versions()
        assert 0 < len(recorded) < 20
        assert_whole(stage)
        subprocess.run(["mount", "-o", f"remount,size={4 * SMALL}", str(stage.project.data)], check=True)
        again = visit(stage.project, FIRST_DAY)
        assert (again.status, again.said, again.counts) == (0, "", {"add": 20})
        assert recorded < stage.project.versions()
        assert_whole(stage)


def assert_whole(stage: Stage) -> None:
    """Asserts that the store has the site's bytes for every version."""
    stored = stage.project.stored()
    right = {drawn(path, pixels=128) for path in PATHS}
    for version in stage.project.versions():
        assert stored[f"{str(version.sha1)[:2]}/{version.sha1}.{version.extension}"] in right


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """Mounts a file system in the folder, until the block ends."""
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if sys.platform != "linux" or mount is None or subprocess.run(command, check=False).returncode != 0:
        pytest.skip("only the administrator of a Linux system can mount a small file system")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="module")
def kept(shared_stage: Stage) -> Path:
    """A copy of the data folder after a first harvest."""
    visit(shared_stage.project, FIRST_DAY)
    return shared_stage.project.data.rename(shared_stage.project.folder / "kept")


@pytest.fixture
def harvested(shared_stage: Stage, kept: Path) -> Iterator[Stage]:
    shutil.copytree(kept, shared_stage.project.data)
    yield shared_stage
    shutil.rmtree(shared_stage.project.data)


@pytest.mark.parametrize("table", ["harvests", "tiles", "versions"])
def test_a_damaged_page_ends_the_harvest_sooner_or_later(harvested: Stage, kept: Path, table: str) -> None:
    """A harvest that has begun when it meets the page leaves no log beside the file: a log would spoil the
    backup that takes the file's place."""
    damage(harvested.project.database, table)
    files = contents(harvested.project.data)
    done = visit(harvested.project, SECOND_DAY)
    assert done.status == 1
    assert "restore it from a backup" in done.error
    assert contents(harvested.project.data).keys() == files.keys()
    shutil.copy(kept / "history.sqlite", harvested.project.database)
    assert visit(harvested.project, SECOND_DAY).counts == {"ign": 20}


def damage(database: Path, table: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        ((page, size),) = connection.execute(
            "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = ?", (table,)
        )
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)
