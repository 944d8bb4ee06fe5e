"""Four versions of a real map, served by nginx and harvested on their days: compared tile by tile with
what was published, and with the map's own record of what changed.
"""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha1
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.real_maps import ANTWORLD_DEPTH, as_of
from tests.end_to_end.rendering import LAYER, Rendering

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.real_maps import Harvested


@pytest.fixture(params=[1, 2, 3, 4], ids="version {}".format)
def harvested(request: pytest.FixtureRequest, antworld: list[Harvested]) -> Harvested:
    return antworld[request.param - 1]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/0/3/3/3/2/0/1/2/0", (-3, -440, 216)),
        ("/1/2/2/2/2/2/2/2/2", (-3, 8, 8)),
        ("/3/0/0/0/0/0/0/0/0", (-3, 8, -8)),
    ],
)
def test_these_tests_name_tiles_as_the_design_does(
    path: str, name: tuple[int, int, int], tmp_path: Path
) -> None:
    assert Rendering(tmp_path, depth=12).tile(path) == (LAYER, *name)


def test_every_tile_has_the_outcome_that_the_maps_own_record_gives_it(harvested: Harvested) -> None:
    assert harvested.outcomes == harvested.expected


def test_only_addresses_without_a_file_are_404(harvested: Harvested) -> None:
    """As nginx saw it: it knows nothing of what was expected."""
    answered = {line.path: line.status for line in harvested.log}
    prefix = f"/{LAYER}"
    missing = {path for path, status in answered.items() if status == 404} - {"/robots.txt"}
    tiles = harvested.rendering.tiles(path.removeprefix(prefix).removesuffix(".png") for path in missing)
    assert tiles == {tile for tile, outcome in harvested.outcomes.items() if outcome == "404"}


def test_the_history_counts_as_the_maps_own_record_does(harvested: Harvested) -> None:
    assert harvested.summary["counts"] == Counter(harvested.expected.values())
    assert harvested.summary["reason"] == "finished"
    assert harvested.summary["day"] == harvested.day
    assert harvested.summary["depth"] == {LAYER: ANTWORLD_DEPTH}


def test_the_history_counts_the_requests_that_nginx_logged(harvested: Harvested) -> None:
    assert harvested.summary["requests"] == len(harvested.log)
    assert harvested.summary["received_bytes"] == sum(
        line.size for line in harvested.log if line.method == "GET"
    )


def test_no_tile_is_asked_for_twice_and_only_what_may_have_changed_is_fetched(harvested: Harvested) -> None:
    asked = Counter((line.method, line.path) for line in harvested.log)
    assert set(asked.values()) == {1}
    tiles = [path for method, path in asked if method == harvested.question and path.endswith(".png")]
    assert len(tiles) == len(harvested.images) + len(harvested.missing)
    fetched = 0 if harvested.step is None else len(harvested.images) - len(harvested.unchanged)
    # And what the site allows, and its configuration.
    assert len(asked) - len(tiles) == fetched + 2


def test_every_stored_file_is_named_by_its_sha1(harvested: Harvested) -> None:
    for name, content in harvested.stored.items():
        digest = sha1(content).hexdigest()
        assert name == f"{digest[:2]}/{digest}.png"


def test_every_image_is_stored_once_and_nothing_else_is(
    harvested: Harvested, antworld: list[Harvested]
) -> None:
    published = {image for earlier in antworld[: harvested.version] for image in earlier.images.values()}
    assert sorted(harvested.stored.values()) == sorted(published)


def test_every_version_of_the_map_can_be_rebuilt_from_the_history(
    harvested: Harvested, antworld: list[Harvested]
) -> None:
    last = antworld[-1]
    recorded = as_of(last.versions, harvested.day)
    rebuilt = {tile: last.stored[f"{digest[:2]}/{digest}.png"] for tile, digest in recorded.items()}
    assert rebuilt == harvested.images


def test_a_version_is_recorded_for_each_change_and_for_nothing_else(antworld: list[Harvested]) -> None:
    recorded = {(version.tile, version.day) for version in antworld[-1].versions}
    changes = {
        (tile, harvested.day)
        for harvested in antworld
        for tile, outcome in harvested.expected.items()
        if outcome in ("add", "upd")
    }
    assert recorded == changes
    assert len(antworld[-1].versions) == len(changes)


def test_the_etag_that_is_kept_is_the_newest_one_of_nginx(antworld: list[Harvested]) -> None:
    """Also where only the file's time has changed: else the tile would be fetched on every harvest."""
    last = antworld[-1]
    etags = {(version.tile, version.day): version.etag for version in last.versions}
    newest = {tile: max(day for other, day in etags if other == tile) for tile in last.images}
    for path in last.rendering.paths():
        tile = last.rendering.tile(path)
        file = last.rendering.file(path).stat()
        assert etags[tile, newest[tile]] == f'"{int(file.st_mtime):x}-{file.st_size:x}"'


def test_every_request_says_who_asks(harvested: Harvested) -> None:
    assert all(re.fullmatch(r"TileHarvest/\d+\.\d+.*", line.agent) for line in harvested.log)
