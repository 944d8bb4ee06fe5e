"""Blocks of any size: what becomes of a real map is the same, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import days
from tests.servers.nginx import nginx
from tests.servers.published import published

if TYPE_CHECKING:
    from pathlib import Path

MAP: Final = "antworld"
ALONE: Final = 1
SIZES: Final = (7, 64)

ROWS: Final = {
    "versions": "layer, zoom, x, y, day, sha1, extension, size, etag, last_modified, harvest",
    "tiles": "layer, zoom, x, y, harvest, outcome, reason, failures",
    "changes": "*",
    "validators": "*",
    "proofs": "*",
    "harvest_counts": "*",
    "harvests": "segment, day, reason, requests, received_bytes, stored_bytes, spared_bytes",
}
"""The history without times, and without the numbers of versions, which have the order of answers."""


@pytest.fixture(scope="module")
def histories(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """By the size of blocks: the tables, the stored images, and what nginx was asked, after two harvests."""
    folder = tmp_path_factory.mktemp("blocks")
    found: dict[int, dict[str, Any]] = {size: {} for size in (ALONE, *SIZES)}
    with nginx(published(shared_maps, MAP, 1, folder / "site")) as server:
        for version, day in enumerate(days(shared_maps, MAP)[:2], 1):
            published(shared_maps, MAP, version, folder / "site")
            for size, of_size in found.items():
                project = Project(folder / str(size))
                if version == 1:
                    project.folder.mkdir()
                    project.add_map(MAP, server.url)
                server.clear_log()
                project.crawl(MAP, day, "-s", f"BLOCK_SIZE={size}")
                of_size[f"asked in {version}"] = sorted((line.method, line.path) for line in server.log())
                for table, columns in ROWS.items():
                    rows = project.query(f"SELECT {columns} FROM {table}")
                    of_size[f"{table} after {version}"] = sorted(rows, key=repr)
                of_size[f"images after {version}"] = project.stored()
    return found


@pytest.mark.parametrize("size", SIZES)
def test_a_block_of_any_size_leaves_the_history_that_single_tiles_leave(
    histories: dict[int, dict[str, Any]], size: int
) -> None:
    of_alone = histories[ALONE]
    assert len(of_alone["versions after 2"]) > len(of_alone["versions after 1"]) > 100
    assert [name for name, found in histories[size].items() if found != of_alone[name]] == []
