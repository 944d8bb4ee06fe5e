"""`scrapy add`: probes a site, and writes an entry that then harvests."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import SMALL_DAY, SMALL_DEPTH
from tests.end_to_end.rendering import LAYER, Rendering
from tests.servers.nginx import Nginx, nginx
from tests.servers.published import published

KEPT = """# My maps. Do not lose this line.
[other]  # nor this one
url = "http://map.example.net/"
zooms = [-3, 0]   # deep ones only
"""


@pytest.fixture(scope="module")
def site(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Rendering:
    folder = tmp_path_factory.mktemp("site")
    return Rendering(published(shared_maps, "alexjj", 1, folder), SMALL_DEPTH)


@pytest.fixture(scope="module")
def server(site: Rendering) -> Iterator[Nginx]:
    with nginx(site.folder) as running:
        yield running


def test_an_added_map_can_be_harvested_and_nothing_else_in_the_file_changes(
    project: Project, site: Rendering, server: Nginx
) -> None:
    project.maps_file.write_text(KEPT, encoding="utf-8")
    done = project.scrapy("add", "mine", f"{server.url}/index.html")
    assert done.stdout.startswith(f"added map 'mine' to {project.maps_file}: a map of Minecraft-Overviewer\n")
    assert f"layer {LAYER}: depth {SMALL_DEPTH}, png" in done.stdout
    (advice,) = done.stderr.splitlines()
    assert advice.startswith("next: add contact = \"you@example.net\" to map 'mine' in ")
    assert project.maps_file.read_text(encoding="utf-8").startswith(KEPT)
    assert not project.data.exists()
    report = project.harvest("mine", SMALL_DAY)
    assert report["counts"]["add"] == len(site.paths())


def test_the_first_map_begins_the_file(project: Project, server: Nginx) -> None:
    contact = ("--contact", "https://example.net/why")
    done = project.scrapy("add", "mine", server.url, "--timezone", "Europe/Berlin", *contact, "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "map": "mine",
        "renderer": "overviewer",
        "refused": [],
        "layers": [{"layer": LAYER, "depth": SMALL_DEPTH, "extension": "png", "world": "world"}],
        "forbidden": None,
        "notes": [],
    }
    expected = (
        "[mine]",
        f'url = "{server.url}"',
        'renderer = "overviewer"',
        f'contact = "{contact[1]}"',
        'timezone = "Europe/Berlin"',
    )
    assert project.maps_file.read_text(encoding="utf-8").splitlines() == list(expected)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["{site}", "--layer", "night"], 2, LAYER),
        (["{site}/nothing"], 5, "/nothing/: is the address right?"),
    ],
)
def test_what_cannot_be_added_leaves_the_file_alone(
    project: Project, server: Nginx, arguments: list[str], status: int, said: str
) -> None:
    project.maps_file.write_text(KEPT, encoding="utf-8")
    given = [argument.format(site=server.url.rstrip("/")) for argument in arguments]
    done = project.scrapy("add", "mine", *given, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    (line,) = done.stderr.splitlines()
    assert said in line
    assert project.maps_file.read_text(encoding="utf-8") == KEPT
    assert sorted(file.name for file in project.folder.iterdir()) == ["maps.toml"]
