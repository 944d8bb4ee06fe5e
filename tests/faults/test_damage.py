"""A flipped bit in an image or in `maps.toml` is found and told in one line, and nothing false is recorded.

A seed draws the bits: a few, and with `--all` 200 of images. Histories and queues have tests of their own:
`tests/history/test_damage.py` and `tests/queue/test_sqlite_queue.py`.
"""

from __future__ import annotations

import json
import shutil
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, SECOND_DAY, Stage, staged, visit
from tests.end_to_end.project import Project
from tileharvest.errors import TileHarvestError
from tileharvest.maps.maps_file import load_maps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(1800)

SEED: Final = 21
MOST: Final = 200
MAPS: Final = """
[small]
url = "http://127.0.0.1:8000/"
timezone = "Europe/Berlin"
zooms = [-1, 0]
concurrency = 4
quiet_hours = "22:00-06:00"

[other]
url = "http://127.0.0.1:8000/other/"
renderer = "overviewer"
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A small site and a project that has harvested it."""
    with staged(tmp_path_factory.mktemp("damaged")) as stage:
        visit(stage.project, FIRST_DAY)
        yield stage


def flip(file: Path, number: int) -> None:
    """Flips one bit of the file. Bytes of value 0 are left out: databases have pages of unused room."""
    drawn, body = Random(f"{SEED} {file.name} {number}"), bytearray(file.read_bytes())
    used = [place for place, byte in enumerate(body) if byte]
    body[drawn.choice(used)] ^= 1 << drawn.randrange(8)
    file.write_bytes(body)


def copied(stage: Stage, folder: Path) -> Project:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(stage.project.folder, folder)
    return Project(folder)


def test_each_flipped_bit_of_an_image_is_found_and_nothing_is_recorded_of_it(
    stage: Stage, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for part in range(MOST // 10 if request.config.getoption("--all") else 1):
        project = copied(stage, tmp_path / "project")
        images = sorted(file for file in (project.data / "tiles").glob("??/*"))
        hit = Random(f"{SEED} {part}").sample(images, 10)
        for number, file in enumerate(hit):
            flip(file, 10 * part + number)
        told = json.loads(project.scrapy("check-store", "--bytes", "--json", check=False).stdout)
        assert {one["image"] for one in told["missing"]} == {file.name for file in hit}
        before = project.versions()
        assert visit(project, SECOND_DAY).counts == {"ign": 20}
        assert project.versions() == before


def test_a_flipped_bit_of_maps_toml_gives_other_maps_or_one_line(tmp_path: Path) -> None:
    file = tmp_path / "maps.toml"
    refused = told = 0
    for number in range(MOST):
        file.write_text(MAPS, encoding="utf-8")
        flip(file, number)
        try:
            load_maps(file)
        except TileHarvestError as error:
            refused += 1
            told += len(str(error).splitlines()) == 1
    assert MOST // 2 < refused == told < MOST
