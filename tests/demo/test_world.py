from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tileharvest.demo.materials import MATERIALS, Material
from tileharvest.demo.noise import chance, rolling
from tileharvest.demo.painter import Landscape, Painter
from tileharvest.demo.pyramid import SQUARE, tiles_on
from tileharvest.demo.sprites import sprite
from tileharvest.demo.structures import House, Tower
from tileharvest.demo.terrain import Column, Oval, Plot
from tileharvest.demo.world import World

PROJECT = Path(__file__).parents[2]
DIGEST = """
import hashlib
from tileharvest.demo.pyramid import SQUARE, tiles_on
from tileharvest.demo.world import World
tiles = sorted(tiles_on(World(), 1, SQUARE).items(), key=lambda each: each[0])
print(hashlib.sha1(b"".join(tile.png for _, tile in tiles)).hexdigest())
"""


def digest(world: World) -> str:
    tiles = sorted(tiles_on(world, 1, SQUARE).items(), key=lambda each: each[0])
    return hashlib.sha1(b"".join(tile.png for _, tile in tiles)).hexdigest()


def test_the_same_seed_gives_the_same_bytes_in_another_process(world: World) -> None:
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    command = [sys.executable, "-c", DIGEST]
    found = subprocess.check_output(command, cwd=PROJECT, env=environment, text=True)
    assert found.strip() == digest(world)


def test_another_seed_gives_another_land(world: World) -> None:
    assert World(seed=1234).landscape(1).ground != world.landscape(1).ground


def test_all_days_together_have_a_demos_number_of_tiles(world: World) -> None:
    assert 60 <= len({tile for day in (1, 2, 3) for tile in tiles_on(world, day, SQUARE)}) <= 120


def test_a_block_outside_of_the_world_is_refused() -> None:
    with pytest.raises(ValueError, match="outside of the world"):
        Landscape({(0, 0): Column(1, "sand")}, {(5, 2, 5): "brick"})


def test_level_ground_is_drawn_without_gaps() -> None:
    ground = {(x, z): Column(1, "sand") for x in range(-20, 20) for z in range(-20, 20)}
    drawing = Painter(Landscape(ground, {})).draw()
    x, y = -drawing.left, -drawing.upper
    inner = drawing.image.crop((x - 90, y - 50, x + 90, y + 50))
    assert inner.getchannel("A").getextrema() == (255, 255)


def test_nothing_is_drawn_outside_of_the_drawing() -> None:
    # Where there is ground far away, too, the same ground shows the same pixels, so none were cut off.
    ground = {(x, 0): Column(4, "stone") for x in range(6)}
    far = {place: Column(4, "stone") for place in ((40, 40), (-40, -40), (40, -40), (-40, 40))}
    blocks = {(0, 5, 0): "brick"}
    tight, wide = (Painter(Landscape(each, blocks)).draw() for each in (ground, ground | far))
    margin, left, upper = 100, tight.left - wide.left, tight.upper - wide.upper
    right, lower = left + tight.image.width, upper + tight.image.height
    around = wide.image.crop((left - margin, upper - margin, right + margin, lower + margin))
    edges = around.getbbox()
    assert edges is not None
    assert min(edges[:2]) >= margin
    assert (edges[2] <= margin + tight.image.width, edges[3] <= margin + tight.image.height) == (True, True)


@pytest.mark.parametrize("name", sorted(MATERIALS))
def test_every_material_can_be_painted_in_every_shade(name: str) -> None:
    light, dark = sprite(name, 0, 0), sprite(name, 0, 6)
    assert light.size == dark.size == (24, 24)
    assert sum(dark.convert("L").tobytes()) < sum(light.convert("L").tobytes())


def test_chance_is_even() -> None:
    numbers = [chance(1, x, z) for x in range(100) for z in range(100)]
    assert all(0 <= number < 1 for number in numbers)
    assert abs(sum(numbers) / len(numbers) - 0.5) < 0.01


def test_rolling_ground_has_no_cliffs() -> None:
    assert all(abs(rolling(1, x, 0) - rolling(1, x + 1, 0)) < 0.2 for x in range(-200, 200))


def test_an_oval_without_area_is_refused() -> None:
    with pytest.raises(ValueError, match="no area"):
        Oval(0, 0, 0, 5)


def test_a_house_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        House(0, 0, 2, 5, "brick", "roof_red")


def test_a_tower_without_walls_is_refused() -> None:
    with pytest.raises(ValueError, match="no walls"):
        Tower(0, 0, 0, 5, "roof_red")


def test_a_colour_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be painted"):
        Material((256, 0, 0), (0, 0, 0))


def test_a_site_measures_distance_along_the_blocks() -> None:
    plot = Plot(10, 10, 3, 2)
    assert [plot.away(x, 10) for x in (10, 13, 14, 20)] == [0, 0, 1, 7]
