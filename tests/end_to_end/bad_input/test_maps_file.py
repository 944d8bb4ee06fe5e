"""Mistakes in `maps.toml` and on the command line: exit status 2, one line, and no file is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, Stage, visit
from tests.end_to_end.project import Project

if TYPE_CHECKING:
    from pathlib import Path

URL = 'url = "http://127.0.0.1:9/"'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[small\n", "is not valid TOML", id="no TOML"),
        pytest.param(f"[small]\n{URL}\nzoom = 3\n", "key 'zoom' is not known; did you", id="unknown key"),
        pytest.param("[small]\nnote = 'mine'\n", "key 'url' is missing", id="no url"),
        pytest.param(f"[small]\n{URL}\nzooms = [0, -3]\n", "key 'zooms'", id="a value that cannot be"),
        pytest.param(f"[smal]\n{URL}\n", "has no map 'small'; did you mean 'smal'?", id="another map"),
        pytest.param(None, "`scrapy add NAME URL` writes one", id="no file"),
    ],
)
def test_a_mistake_in_maps_toml_is_one_line_with_what_would_be_right(
    project: Project, text: str | None, said: str
) -> None:
    if text is not None:
        project.maps_file.write_text(text, encoding="utf-8")
    done = visit(project, FIRST_DAY)
    assert done.status == 2
    assert said in done.error
    assert str(project.maps_file) in done.error
    assert not project.data.exists()


def test_a_mistake_in_one_map_stops_all_before_the_first_is_asked(stage: Stage) -> None:
    stage.project.add_map("other", "ftp://map.example.net/")
    done = visit(stage.project, FIRST_DAY, names=("small", "other"))
    assert done.status == 2
    assert "map 'other': key 'url'" in done.error
    assert stage.site.received == []


def test_zooms_zones_and_a_max_depth_that_do_not_fit_the_site_are_mistakes_too(stage: Stage) -> None:
    url = f"{stage.site.url}/"
    stage.project.add_map("coarse", url, zooms=[-9, -5])
    far = {"center": [100, 100], "width": 4, "height": 4, "zoom": 0}
    stage.project.add_map("far", url, zones=[far])
    stage.project.add_map("shallow", url, zooms=[0, 0], max_depth=0)
    done = visit(stage.project, FIRST_DAY, names=("coarse", "far", "shallow"))
    assert done.status == 2
    # The maps are harvested side by side, so the order of the lines may vary.
    coarse, outside, shallow, last = sorted(done.said.splitlines())
    assert "map 'coarse', layer 'world-day': a layer of depth 2 has the zooms -1 to 0" in coarse
    assert "map 'far', layer 'world-day': no zone lies within a layer" in outside
    assert "map 'shallow', layer 'world-day': with max_depth = 0 the walk goes from zoom -1 to -1" in shallow
    assert shallow.endswith("change its zooms, zones or max_depth")
    assert last == "exit status 2, wrong usage, or harvested by another process: coarse, far, shallow"
    assert stage.project.kept() == {}


@pytest.mark.parametrize("day", ["yesterday", "2999-01-01"])
def test_a_day_that_cannot_be_is_a_mistake(stage: Stage, day: str) -> None:
    done = visit(stage.project, day)
    assert done.status == 2
    assert f"{day} " in done.error
    assert not stage.project.data.exists()
