"""What leaves the house, made by the commands of a harvested map."""

import json
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import ANTWORLD, Harvested
from tests.servers.nginx import Nginx


def test_a_picture_a_film_and_an_archive_show_the_days_of_a_map(
    project: Project, antworld: list[Harvested], tmp_path: Path
) -> None:
    project.adopt(antworld[-1].data)
    told = {}
    for command, file, *more in (
        ("mosaic", "map.png", "--zoom", "-3", "--day", antworld[1].day),
        ("film", "film.webp", "--size", "320x180", "--every", "month"),
        ("archive", "map.zip", "--day", antworld[1].day),
    ):
        made = project.scrapy(command, ANTWORLD, str(tmp_path / file), *more, "--json")
        told[command] = json.loads(made.stdout)
        assert told[command]["bytes"] == (tmp_path / file).stat().st_size
    with Image.open(tmp_path / "map.png") as found, Image.open(tmp_path / "film.webp") as shown:
        assert found.size == (told["mosaic"]["width"], told["mosaic"]["height"])
        assert (shown.size, shown.n_frames > 1) == ((320, 180), True)
    assert told["archive"]["tiles"] == len(antworld[1].images)


def test_a_restored_map_can_be_served_again(
    project: Project, antworld: list[Harvested], nginx: Callable[..., Nginx], tmp_path: Path
) -> None:
    """Elsewhere than before. Its files have the site's times, of which nginx makes their ETags: so a harvest
    finds everything unchanged."""
    last, web = antworld[-1], tmp_path / "web"
    web.mkdir()
    project.adopt(last.data)
    project.add_map(ANTWORLD, f"{nginx(web).url}/map/", walk="full")
    told = json.loads(project.scrapy("restore", ANTWORLD, str(web / "map"), "--json").stdout)
    assert (told["day"], told["tiles"], told["missing"]) == (last.day, len(last.images), 0)
    counts = project.harvest(ANTWORLD, "2021-06-01")["counts"]
    assert {outcome: tiles for outcome, tiles in counts.items() if tiles and outcome != "404"} == {
        "ign": len(last.images)
    }
