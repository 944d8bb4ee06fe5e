"""Archives that nobody would think of: they are read, or refused in one line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz import assert_told, damaged, fuzzed
from tileharvest.errors import TileHarvestError
from tileharvest.importers.kedamadiff import KedamaDiffArchive

if TYPE_CHECKING:
    from pathlib import Path

VALUES: Any = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.binary(max_size=12),
    st.sampled_from(["20180202", "-3_8_8.jpg", "_1_2_2.jpg", "99999999", "0"]),
)
HISTORY: Final = json.dumps(
    {
        "_1_2_2.jpg": [{"Save_in": "images/v1/20180202/", "ETag": '"1"'}],
        "-3_8_8.jpg": [{"Save_in": "20180203"}],
    }
).encode()
LATEST: Final = json.dumps({"_1_2_2.jpg": {"ETag": '"2"', "path": "x"}}).encode()


def assert_read(archive: KedamaDiffArchive) -> None:
    try:
        assert archive.count() >= 0
        for day, tiles in archive.days():
            assert isinstance(day, date)
            assert tiles
    except TileHarvestError as error:
        assert_told(error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    for name in ("v1", "v2"):
        (folder / "data" / name).mkdir(parents=True)
    return folder


@fuzzed(200)
@given(damaged([HISTORY]) | st.just(b"[" * 5_000), damaged([LATEST]))
def test_any_bytes_of_an_older_archive(folder: Path, updates: bytes, latest: bytes) -> None:
    (folder / "data" / "v1" / "update_history.json").write_bytes(updates)
    (folder / "data" / "v1" / "latest_ETag.json").write_bytes(latest)
    assert_read(KedamaDiffArchive(folder, "v1"))


@fuzzed(200)
@given(st.lists(st.tuples(*[VALUES] * 7), min_size=1, max_size=3))
@example([("_1.jpg", "20180202", None, 10**9, 1, 1, None)])
@example([("-1000000000_1_1.jpg", "20180202", None, 0, 1, 1, None)])
def test_any_rows_of_an_archive(folder: Path, rows: list[tuple[Any, ...]]) -> None:
    file = folder / "data" / "v2" / "crawl_records.sqlite3"
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(
            "CREATE TABLE crawl_records (file_name, crawled_at, ETag, zoom_level, coord_x, coord_y, deleted)"
        )
        connection.executemany("INSERT INTO crawl_records VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    assert_read(KedamaDiffArchive(folder, "v2"))
