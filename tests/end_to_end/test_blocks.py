"""Blocks of any size: what becomes of a real map, and of a site that misbehaves, is the same, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    PATHS,
    SECOND_DAY,
    address,
    methods,
    staged,
    visit,
)
from tests.end_to_end.bad_input.test_hostile_sites import SECOND, followed_by, head_with_a_body
from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import days
from tests.servers import rules
from tests.servers.nginx import nginx
from tests.servers.published import published

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.misbehaving import Rule

MAPS: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "antworld": ("overviewer", {}),
    "duckmap": ("squaremap", {}),
    "alexjj": ("overviewer", {}),
    "jgore43": ("mapcrafter", {}),
    "sbatserver": ("pl3xmap", {}),
    "labyrinthmc": ("bluemap", {}),
    "helmetgreen": ("unmined", {}),
    # A pruned walk of it audits tiles by chance.
    "mrozbarry": ("dynmap", {"robots": False, "walk": "full"}),
}
"""By name: who has drawn it, and what its entry in maps.toml has beside the address."""
FEW: Final = ("antworld", "duckmap")
"""Those that are always harvested; the others with `--all`."""
ALONE: Final = 1
SIZES: Final = (7, 64)

ROWS: Final = {
    "versions": "layer, zoom, x, y, day, sha1, extension, size, etag, last_modified, harvest",
    "blocks": "*",
    "failures": "*",
    "changes": "*",
    "validators": "*",
    "proofs": "*",
    "harvest_counts": "*",
    "harvests": "segment, day, reason, requests, received_bytes, stored_bytes, spared_bytes",
}
"""The history without times, and without the numbers of versions, which have the order of answers."""

REFUSED, RESET, WITH_BODY, BEHIND, SLOW = "2", "02", "12", "21", "30"


def misbehaving() -> dict[str, Rule]:
    return {
        REFUSED: rules.first(1, rules.too_many("1")),
        RESET: rules.first(1, rules.reset()),
        WITH_BODY: head_with_a_body(),
        BEHIND: rules.only("HEAD", followed_by(SECOND)),
        # Ten bytes a second, where a thousand are the least.
        SLOW: rules.only("HEAD", rules.trickle(b"HTTP/1.1 200 OK\r\nLate: ", b"a")),
    }


QUICKLY: Final = ("-s", "DOWNLOAD_LOW_SPEED_TIME=1", "-s", "RETRY_TIMES=1")


@pytest.fixture(
    scope="module",
    params=[name if name in FEW else pytest.param(name, marks=pytest.mark.repetition) for name in MAPS],
)
def histories(
    request: pytest.FixtureRequest, shared_maps: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, dict[str, Any]]:
    """By the size of blocks: the tables, the stored images, and what nginx was asked, after two harvests."""
    name: str = request.param
    spider, keys = MAPS[name]
    folder = tmp_path_factory.mktemp("blocks")
    found: dict[int, dict[str, Any]] = {size: {} for size in (ALONE, *SIZES)}
    with nginx(published(shared_maps, name, 1, folder / "site")) as server:
        for version, day in enumerate(days(shared_maps, name)[:2], 1):
            published(shared_maps, name, version, folder / "site")
            for size, of_size in found.items():
                project = Project(folder / str(size))
                if version == 1:
                    project.folder.mkdir()
                    project.add_map(name, server.url, **keys)
                server.clear_log()
                project.crawl(name, day, "-s", f"BLOCK_SIZE={size}", spider=spider)
                of_size[f"asked in {version}"] = sorted((line.method, line.path) for line in server.log())
                of_size |= {f"{what} after {version}": rows for what, rows in left_by(project).items()}
    return found


def left_by(project: Project) -> dict[str, Any]:
    """The history's tables, and the stored images."""
    tables = {
        table: sorted(project.query(f"SELECT {columns} FROM {table}"), key=repr)
        for table, columns in ROWS.items()
    }
    return {**tables, "images": project.stored()}


@pytest.mark.parametrize("size", SIZES)
def test_a_block_of_any_size_leaves_the_history_that_single_tiles_leave(
    histories: dict[int, dict[str, Any]], size: int
) -> None:
    of_alone = histories[ALONE]
    assert len(of_alone["versions after 2"]) >= len(of_alone["versions after 1"]) >= 10
    assert [name for name, found in histories[size].items() if found != of_alone[name]] == []


def test_a_site_that_misbehaves_in_the_middle_of_a_block_leaves_what_it_leaves_tile_by_tile(
    tmp_path: Path,
) -> None:
    """One connection, so that the tiles of the unchanged map follow each other in one block."""
    found: dict[int, dict[str, Any]] = {}
    for size in (ALONE, SIZES[-1]):
        with staged(tmp_path / str(size)) as stage:
            stage.project.maps_file.unlink()
            stage.project.add_map("small", f"{stage.site.url}/", concurrency=1)
            visit(stage.project, FIRST_DAY)
            stage.site.received.clear()
            stage.site.rules = {address(path): rule for path, rule in misbehaving().items()}
            visited = visit(stage.project, SECOND_DAY, "-s", f"BLOCK_SIZE={size}", *QUICKLY)
            asked = {path: methods(stage.site, path) for path in PATHS}
            found[size] = {**left_by(stage.project), "asked": asked, "counts": visited.counts}
    of_alone = found[ALONE]
    assert of_alone["asked"][REFUSED] == ["HEAD"] * 2
    assert of_alone["asked"][RESET] == ["HEAD"] * 2
    assert of_alone["asked"][SLOW] == ["HEAD"] * 2
    assert of_alone["counts"]["fail"] > 0
    assert [name for name, rows in found[SIZES[-1]].items() if rows != of_alone[name]] == []
