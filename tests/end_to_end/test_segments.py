"""A request is made once in a segment: a day is not harvested twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import SMALL, SMALL_DAY
from tests.servers.nginx import Nginx
from tests.servers.published import published

NEXT_DAY: Final = "2016-10-07"
ZONE: Final = "Asia/Shanghai"
"""Has no summer time."""


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
