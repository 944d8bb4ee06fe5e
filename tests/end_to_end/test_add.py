"""`scrapy add`: probes a site, and writes an entry that then harvests."""

import json

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, LAYER, Stage

KEPT = """# My maps. Do not lose this line.
[other]  # nor this one
url = "http://map.example.net/"
zooms = [-3, 0]   # deep ones only
"""


def test_an_added_map_can_be_harvested_and_nothing_else_in_the_file_changes(stage: Stage) -> None:
    project = stage.project
    project.maps_file.write_text(KEPT, encoding="utf-8")
    done = project.scrapy("add", "mine", f"{stage.site.url}/index.html")
    assert done.stdout.startswith(f"added map 'mine' to {project.maps_file}: a map of Minecraft-Overviewer\n")
    assert f"layer {LAYER}: depth 2, png" in done.stdout
    (advice,) = done.stderr.splitlines()
    assert advice.startswith("next: add contact = \"you@example.net\" to map 'mine' in ")
    assert project.maps_file.read_text(encoding="utf-8").startswith(KEPT)
    assert not project.data.exists()
    assert project.harvest("mine", FIRST_DAY)["counts"] == {"add": 20}


def test_the_first_map_begins_the_file(stage: Stage) -> None:
    project, url = stage.project, stage.site.url
    project.maps_file.unlink()
    contact = ("--contact", "https://example.net/why")
    done = project.scrapy("add", "mine", url, "--timezone", "Europe/Berlin", *contact, "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "map": "mine",
        "renderer": "overviewer",
        "refused": [],
        "layers": [{"layer": LAYER, "depth": 2, "extension": "png", "world": None}],
        "forbidden": None,
        "notes": [],
    }
    entry = f'[mine]\nurl = "{url}"\nrenderer = "overviewer"\ncontact = "{contact[1]}"\n'
    assert project.maps_file.read_text(encoding="utf-8") == f'{entry}timezone = "Europe/Berlin"\n'


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["{site}", "--layer", "night"], 2, LAYER),
        (["{site}/nothing"], 5, "/nothing/: is the address right?"),
    ],
)
def test_what_cannot_be_added_leaves_the_file_alone(
    stage: Stage, arguments: list[str], status: int, said: str
) -> None:
    project = stage.project
    project.maps_file.write_text(KEPT, encoding="utf-8")
    given = [argument.format(site=stage.site.url) for argument in arguments]
    done = project.scrapy("add", "mine", *given, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    (line,) = done.stderr.splitlines()
    assert said in line
    assert project.maps_file.read_text(encoding="utf-8") == KEPT
    assert sorted(file.name for file in project.folder.iterdir()) == ["maps.toml"]
