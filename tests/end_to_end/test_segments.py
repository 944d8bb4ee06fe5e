"""A request is made once in a segment: a day is not harvested twice, and one that was cut short goes on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    FIRST_LEVEL,
    PATHS,
    SECOND_DAY,
    Stage,
    asked,
    staged,
    visit,
)
from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import SMALL, SMALL_DAY
from tests.end_to_end.rendering import Rendering
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.nginx import Nginx

NEXT_DAY: Final = "2016-10-07"
ZONE: Final = "Asia/Shanghai"
"""Has no summer time."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as stage:
        yield stage


def test_a_day_is_harvested_once_and_the_second_run_says_so_and_asks_nothing(
    project: Project, shared_maps: Path, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(published(shared_maps, "alexjj", 1, tmp_path / "site"))
    project.add_map(SMALL, server.url, timezone=ZONE)
    project.harvest(SMALL, SMALL_DAY)
    server.clear_log()
    kept = project.kept()
    done = project.scrapy("harvest", SMALL, "-a", f"day={SMALL_DAY}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"map 'small' is already harvested for {SMALL_DAY}; the next segment begins {NEXT_DAY} 00:00 CST; "
        "scrapy harvest small --segment run asks again\n"
    )
    assert list(server.log()) == []
    assert project.kept() == kept


def test_what_failed_yesterday_is_asked_where_it_is_today_on_a_map_that_has_grown(
    project: Project,
    small_map: Rendering,
    shared_maps: Path,
    tmp_path: Path,
    nginx: Callable[..., Nginx],
) -> None:
    """What is at yesterday's address is another tile's image now."""
    second = Rendering(published(shared_maps, "alexjj", 2, tmp_path / "second"), depth=6)
    failing = min(small_map.paths() & second.paths())
    refusing = f"location = /{small_map.layer}{failing}.png {{ return 403; }}"
    tile = small_map.tile(failing)
    project.harvest(SMALL, SMALL_DAY)
    before = project.versions()
    project.maps_file.unlink()
    project.add_map(SMALL, nginx(small_map.folder, server=refusing).url, change_index=False)
    project.harvest(SMALL, "2016-10-07", check=False)
    assert project.outcomes()[tile] == "fail"
    server = nginx(published(shared_maps, "alexjj", 2, small_map.folder))
    project.maps_file.unlink()
    project.add_map(SMALL, server.url)
    project.harvest(SMALL, "2016-10-08")
    heads = Counter(line.path for line in server.log() if line.method == "HEAD")
    fresh = Project(tmp_path)
    fresh.add_map(SMALL, server.url)
    fresh.harvest(SMALL, "2016-10-08")
    right = {version.tile: version.sha1 for version in fresh.versions()}
    latest = {version.tile: version.sha1 for version in sorted(project.versions(), key=lambda one: one.day)}
    assert {name for name, digest in latest.items() if digest is not None} == right.keys()
    assert {name: latest[name] for name in right} == right
    assert {version.tile for version in before} <= latest.keys()
    assert set(heads.values()) == {1}


def test_tiles_that_are_known_below_a_max_depth_set_later_are_neither_asked_nor_vanished(
    stage: Stage,
) -> None:
    stage.project.crawl("small", FIRST_DAY)
    kept = stage.project.versions()
    limit(stage, 0)
    stage.site.received.clear()
    harvested = visit(stage.project, SECOND_DAY)
    assert (harvested.status, harvested.said) == (0, "")
    assert {path for path in PATHS if asked(stage.site, path)} == set(FIRST_LEVEL)
    assert stage.project.versions() == kept


def limit(stage: Stage, depth: int) -> None:
    """Let the map's walk go no deeper."""
    stage.project.maps_file.unlink()
    stage.project.add_map("small", f"{stage.site.url}/", max_depth=depth, walk="full")
