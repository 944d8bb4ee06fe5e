"""A dry run asks and reports as a harvest does, and leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.end_to_end.bad_input.small_site import FIRST_DAY, staged, visit
from tests.end_to_end.project import contents
from tests.end_to_end.real_maps import ANTWORLD
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.end_to_end.real_maps import Harvested
    from tests.servers.nginx import Nginx


def kept(project: Project) -> dict[str, bytes]:
    """But for who asks which host at the moment: a dry run is one of them."""
    return {name: body for name, body in contents(project.data).items() if not name.startswith("throttle/")}


def test_a_dry_run_reports_what_a_harvest_reports_and_changes_no_byte(
    antworld: list[Harvested],
    project: Project,
    shared_maps: Path,
    tmp_path: Path,
    nginx: Callable[..., Nginx],
) -> None:
    first, second, *_ = antworld
    project.add_map(ANTWORLD, nginx(published(shared_maps, ANTWORLD, 1, tmp_path / "first")).url)
    report = project.harvest(ANTWORLD, first.day, "-a", "dry=1")
    assert report["counts"] == first.summary["counts"]
    assert sorted(file.name for file in project.folder.iterdir()) == ["maps.toml"]
    project.maps_file.unlink()
    project.adopt(first.data)
    before = kept(project)
    server = nginx(published(shared_maps, ANTWORLD, 2, tmp_path / "site"))
    project.add_map(ANTWORLD, server.url)
    report = project.harvest(ANTWORLD, second.day, "-a", "dry=1")
    assert report["counts"] == second.summary["counts"]
    assert report["requests"] == second.summary["requests"] == len(list(server.log()))
    assert kept(project) == before


def test_a_dry_run_counts_against_the_days_budget(tmp_path: Path) -> None:
    """A first harvest of the small site needs 22 requests, a dry one too."""
    with staged(tmp_path) as stage:
        stage.project.maps_file.unlink()
        stage.project.add_map("small", f"{stage.site.url}/", daily_budget={"requests": 30})
        dry = visit(stage.project, FIRST_DAY, "-a", "dry=1")
        assert (dry.status, len(stage.site.received)) == (0, 22)
        assert stage.project.query("SELECT count(*) FROM harvests") == [(0,)]
        assert visit(stage.project, FIRST_DAY).status == 4
        assert len(stage.site.received) == 30
        third = visit(stage.project, FIRST_DAY, "-a", "dry=1")
        assert (third.status, len(stage.site.received)) == (4, 30)
        assert "has spent its daily budget" in third.said
