"""`scrapy check-store`: history and store are compared, both ways."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    PATHS,
    Stage,
    address,
    drawn,
    staged,
    versions,
    visit,
)

UNNAMED = b"a kill came between the image and its row"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A harvest; then an image is lost, another has lost its end, one is damaged, and one is too many."""
    with staged(tmp_path_factory.mktemp("verified")) as stage:
        visit(stage.project, FIRST_DAY)
        stage.project.scrapy("check-store")
        stored(stage, "00").unlink()
        stored(stage, "01").write_bytes(stored(stage, "01").read_bytes()[:-1])
        stored(stage, "02").write_bytes(bytes(stored(stage, "02").stat().st_size))
        put_too_many(stage)
        yield stage


def image_file(stage: Stage, name: str) -> Path:
    return stage.project.data / "tiles" / name[:2] / f"{name}.png"


def put_too_many(stage: Stage) -> Path:
    too_many = image_file(stage, sha1(UNNAMED).hexdigest())
    too_many.parent.mkdir(exist_ok=True)
    too_many.write_bytes(UNNAMED)
    return too_many


def stored(stage: Stage, path: str) -> Path:
    """Where the store has the image of a tile."""
    return image_file(stage, stage.files.sha1(path))


def told(stage: Stage, *words: str) -> dict[str, Any]:
    done = stage.project.scrapy("check-store", *words, "--json", check=False)
    assert done.returncode == 1
    return dict(json.loads(done.stdout))


def test_missing_images_are_listed_with_their_tiles_and_unnamed_ones_by_name(stage: Stage) -> None:
    found = told(stage)
    assert found["images"] == len(PATHS)
    assert [(one["tile"], one["image"]) for one in found["missing"]] == [
        ("0_-3_3", f"{stage.files.sha1('00')}.png"),
        ("0_-1_3", f"{stage.files.sha1('01')}.png"),
    ]
    assert {(one["map"], one["layer"], one["day"]) for one in found["missing"]} == {
        ("small", LAYER, FIRST_DAY)
    }
    assert found["unnamed"] == [f"{sha1(UNNAMED).hexdigest()}.png"]


def test_a_damaged_image_is_fetched_anew_where_the_site_still_has_it(tmp_path: Path) -> None:
    """One that has been damaged and one that is missing; and one of which the site has other bytes by now."""
    with staged(tmp_path) as stage:
        visit(stage.project, FIRST_DAY)
        before = stage.project.stored()
        flipped, missing, changed = (stored(stage, path) for path in ("00", "01", "02"))
        for file in (flipped, changed):
            file.write_bytes(file.read_bytes()[:-1] + b"!")
        missing.unlink()
        stage.files.write("02", drawn("another"))
        done = stage.project.scrapy("check-store", "--bytes", "--mend", check=False)
        assert done.returncode == 1
        assert "3 of them may still be had from the sites: run scrapy harvest small" in done.stdout
        assert "backup" not in done.stdout
        stage.site.received.clear()
        assert visit(stage.project, FIRST_DAY).counts == {"nMod": 2, "rep": 1}
        fetched = [one.path for one in stage.site.received if one.method == "GET"]
        assert [fetched.count(address(path)) for path in ("00", "01", "02")] == [1, 1, 1]
        after = stage.project.stored()
        assert [flipped.read_bytes(), missing.read_bytes()] == [drawn("00"), drawn("01")]
        assert {name for name in before if after[name] != before[name]} == {
            f"{changed.name[:2]}/{changed.name}"
        }
        assert versions(stage.project, "00")[0][2] is not None


def test_what_no_version_names_is_removed_once_it_is_older_than_a_day_and_no_map_is_harvested(
    tmp_path: Path,
) -> None:
    with staged(tmp_path) as stage:
        visit(stage.project, FIRST_DAY)
        too_many = put_too_many(stage)
        before = stage.project.stored()
        assert "0 images older than a day" in stage.project.scrapy("check-store", "--clean").stdout
        os.utime(too_many, (0, 0))
        with stage.project.running("harvest", "small", "-a", "stay=1", "-s", "PROGRESS_INTERVAL=0.1") as work:
            next(iter(work.stderr))
            done = stage.project.scrapy("check-store", "--clean", check=False)
        assert done.returncode == 2
        assert "map 'small' is being harvested" in done.stderr
        assert "none was removed" in done.stderr
        assert stage.project.stored() == before
        cleaned = stage.project.scrapy("check-store", "--clean").stdout
        assert "1 image older than a day that no version names: removed" in cleaned
        assert cleaned.count("no version names") == 1
        assert before.keys() - stage.project.stored().keys() == {f"{too_many.name[:2]}/{too_many.name}"}


def test_a_damaged_history_is_told_and_nothing_is_cleaned(stage: Stage) -> None:
    file = stage.project.data / "history.sqlite"
    sound = file.read_bytes()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE changes SET tiles = tiles + 1")
    try:
        done = stage.project.scrapy("check-store", "--clean", check=False)
        assert "the history is damaged (the counts of changes per day are not those of" in done.stderr
        assert "no image was removed" in done.stderr
        assert done.returncode == 1
    finally:
        file.write_bytes(sound)
