"""Data folders that cannot be written: exit status 1, one line, and the data stay as they are."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


def test_a_data_folder_that_may_only_be_read(stage: Stage) -> None:
    visit(stage.project, FIRST_DAY)
    before = contents(stage.project.data)
    with read_only(stage.project.data):
        done = visit(stage.project, SECOND_DAY)
    assert done.status == 1
    # The queue is opened before the history.
    assert str(stage.project.data / "queues" / "small.sqlite") in done.error
    assert "writable" in done.error
    assert contents(stage.project.data) == before


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


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Forbids writing in the folder. For root, who may always write, the folder is mounted read-only."""
    if os.getuid() != 0:
        modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
        for path, mode in modes.items():
            path.chmod(mode & ~0o222)
        yield
        for path, mode in modes.items():
            path.chmod(mode)
        return
    bind = ["mount", "--bind", str(folder), str(folder)]
    if sys.platform != "linux" or subprocess.run(bind, check=False).returncode != 0:
        pytest.skip("what the administrator may not write must be mounted so, which is not allowed here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)
