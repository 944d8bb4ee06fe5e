"""SIGKILL in a harvest whose change index is wrong: the next run leaves the history of a full harvest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.soundness import assert_sound, images
from tests.crash.test_pruned_kill import kill
from tests.end_to_end.project import Project
from tests.end_to_end.pruned_stage import RARELY
from tests.end_to_end.real_maps import ANTWORLD
from tests.servers.nginx import nginx
from tests.servers.published import published

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.real_maps import Harvested


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param((3, 520), id="early and late"),
        pytest.param((250, 600), id="in between", marks=pytest.mark.repetition),
    ],
)
def test_a_wrong_index_is_found_out_and_repaired_over_kills(
    antworld: list[Harvested], shared_maps: Path, tmp_path: Path, moments: tuple[int, ...]
) -> None:
    """The site publishes the fourth version with the configuration of the third. The harvest audits all
    tiles, which takes some 490 requests, and then walks in full."""
    before, undisturbed = antworld[2], antworld[3]
    site = published(shared_maps, ANTWORLD, 3, tmp_path / "site")
    told = (site / "overviewerConfig.js").read_bytes()
    published(shared_maps, ANTWORLD, 4, site)
    (site / "overviewerConfig.js").write_bytes(told)
    project = Project(tmp_path / "project")
    project.adopt(before.data)
    command = ("crawl", "overviewer", "-a", f"map={ANTWORLD}", "-a", f"day={undisturbed.day}")
    with nginx(site) as server:
        project.add_map(ANTWORLD, server.url, audit=1, full_every=RARELY)
        for moment in moments:
            kill(server, project, moment, *command)
        project.scrapy(*command, check=False)
    assert_sound(project)
    assert project.versions() == undisturbed.versions
    assert images(project) == undisturbed.stored
    ends = project.query("SELECT reason, walk FROM harvests WHERE day = ?", undisturbed.day)
    assert ends == [("finished", "repaired")]
