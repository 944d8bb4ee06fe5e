"""The demo's map in the form of each renderer, added and harvested over its three days.

It has tiles left of the origin and above it, land that is removed, and land that is new.
"""

import json
from datetime import date, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.project import Project
from tests.servers.nginx import nginx
from tileharvest.demo.__main__ import differences
from tileharvest.demo.forms import FORMS
from tileharvest.demo.publication import publish
from tileharvest.demo.pyramid import changes
from tileharvest.demo.world import DAYS
from tileharvest.renderers.registry import RENDERERS

FIRST_DAY = date(2026, 11, 18)
READ = sorted(
    FORMS.keys() & RENDERERS.keys() - {"overviewer"},
    key=lambda name: (not FORMS[name].cut.is_from_above, name),
)
"""Overviewer's is harvested by the README's test. Those that look from one side share the drawing, and so
follow each other."""
REPEATED: Final = {"bluemap", "dynmap"}
"""Their published maps show the same on more days, in tests of their own."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.repetition] if one in REPEATED else []) for one in READ],
)
def test_each_day_has_the_outcomes_and_the_images_that_the_world_predicts(
    name: str, project: Project, tmp_path: Path
) -> None:
    form, site = FORMS[name], tmp_path / "site"
    images = []
    publish(DAYS[0], FIRST_DAY, site, form)
    with nginx(site) as server:
        added = project.scrapy("add", "island", f"{server.url}/{form.page}", "--json")
        assert json.loads(added.stdout)["renderer"] == name
        with project.maps_file.open("a", encoding="utf-8") as file:
            file.write("audit = 0  # It draws tiles by lot.\n")
        for day in DAYS:
            if day != DAYS[0]:
                publish(day, FIRST_DAY, site, form)
            images.append({file.read_bytes() for file in site.rglob("*.png") if file.name != "base.png"})
            project.crawl("island", str(FIRST_DAY + timedelta(days=day - 1)), spider=name)
    for day, harvest in zip(DAYS, project.harvests("island"), strict=True):
        assert (day, differences(harvest["counts"], changes(day, form.cut))) == (day, [])
        assert harvest["renderer"] == name
    stored = set(project.stored().values())
    assert set.union(*images) <= stored
    assert {sha1(body).hexdigest() for body in stored} == {one.sha1 for one in project.versions() if one.sha1}
