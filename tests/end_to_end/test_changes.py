"""What happens to single tiles of a real map: changed again on a day, removed, put back."""

from hashlib import sha1

from tests.end_to_end.project import LayerTile, Project
from tests.end_to_end.real_maps import SMALL, SMALL_DAY
from tests.end_to_end.rendering import Rendering

TODAY = SMALL_DAY
"""Of the harvest that has been."""
TOMORROW, LATER, MUCH_LATER = "2016-10-07", "2016-10-08", "2016-10-09"
AGAIN = ("-a", "segment=run")
"""For a second harvest of a day."""
NOW = 1_476_500_000
"""A modification time after all of the map's own, in seconds since 1970."""


def deepest(rendering: Rendering) -> list[str]:
    """The paths of tiles at zoom 0, in order."""
    return sorted(path for path in rendering.paths() if path.count("/") == rendering.depth)


def some_branch(rendering: Rendering) -> set[str]:
    """A tile with all that is below it: a few, and far fewer than half of the map."""
    paths = rendering.paths()
    branches = [{path for path in paths if f"{path}/".startswith(f"{top}/")} for top in sorted(paths)]
    return next(branch for branch in branches if 3 <= len(branch) <= len(paths) / 4)


def with_outcome(project: Project, outcome: str) -> set[LayerTile]:
    return {tile for tile, found in project.outcomes().items() if found == outcome}


def days_of(project: Project, tile: LayerTile) -> list[tuple[str, str | None]]:
    return sorted((version.day, version.sha1) for version in project.versions() if version.tile == tile)


def test_a_tile_that_changes_twice_on_a_day_has_one_version_of_it(
    project: Project, harvested_map: Rendering
) -> None:
    first, second, *_ = deepest(harvested_map)
    image = harvested_map.file(second).read_bytes()
    harvested_map.replace(first, image, NOW)
    report = project.harvest(SMALL, TODAY, *AGAIN)
    tile = harvested_map.tile(first)
    assert with_outcome(project, "rep") == {tile}
    assert report["counts"]["ign"] == len(harvested_map.paths()) - 1
    assert days_of(project, tile) == [(TODAY, sha1(image).hexdigest())]
    assert len(project.versions()) == len(harvested_map.paths())


def test_removed_tiles_are_gone_once_with_all_below_them_and_are_added_when_they_come_back(
    project: Project, harvested_map: Rendering
) -> None:
    images = {path: harvested_map.file(path).read_bytes() for path in some_branch(harvested_map)}
    for path in images:
        harvested_map.file(path).unlink()
    project.harvest(SMALL, TOMORROW)
    assert with_outcome(project, "gone") == harvested_map.tiles(images)
    assert with_outcome(project, "ign") == harvested_map.tiles(harvested_map.paths())
    versions = project.versions()
    report = project.harvest(SMALL, LATER)
    assert "gone" not in report["counts"]
    assert report["counts"]["404"] == len(harvested_map.missing())
    assert project.versions() == versions
    for path, image in images.items():
        harvested_map.replace(path, image, NOW)
    project.harvest(SMALL, MUCH_LATER)
    assert with_outcome(project, "add") == harvested_map.tiles(images)
    for path, image in images.items():
        digest = sha1(image).hexdigest()
        expected = [(TODAY, digest), (TOMORROW, None), (MUCH_LATER, digest)]
        assert days_of(project, harvested_map.tile(path)) == expected


def test_tiles_below_a_missing_one_are_found_all_the_same(project: Project, harvested_map: Rendering) -> None:
    """A site in the middle of its upload: a parent is away, its children are there."""
    parent = min(some_branch(harvested_map), key=len)
    harvested_map.file(parent).unlink()
    project.harvest(SMALL, TOMORROW)
    assert with_outcome(project, "gone") == {harvested_map.tile(parent)}
    assert with_outcome(project, "ign") == harvested_map.tiles(harvested_map.paths())
