"""Excerpts of a map, and the pixels that belong to them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.viewer.building import DAY_LAYER, FIRST, MAP, NIGHT_LAYER, SECOND, SIZE, THIRD, World, picture
from tileharvest.errors import ConfigurationError
from tileharvest.export.excerpt import excerpt_of, zooms_between
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.maps.named_areas import NamedArea
from tileharvest.renderers.xyz import mercator
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from pathlib import Path

SPAWN = NamedArea(name="spawn", layer="top", corners=((9, 0), (0, 19)))


def of_layer(folder: Path, layer: Layer, tile: Tile, renderer: str = "squaremap") -> History:
    world = World(folder)
    world.harvest(FIRST, {tile: picture()}, layer=layer.name, described=layer, renderer=renderer)
    return History.open_read_only(f"sqlite:///{world.history_file}")


def test_nothing_said_is_the_whole_first_layer_on_its_last_day(history: History) -> None:
    found = excerpt_of(history, MAP)
    assert (found.layer.name, found.first, found.last) == (DAY_LAYER, THIRD, THIRD)
    assert found.box(0) == (-2 * SIZE, -2 * SIZE, 2 * SIZE, 2 * SIZE)
    assert found.box(-1) == (-SIZE, -SIZE, SIZE, SIZE)
    assert found.box(-3) == (-SIZE // 4, -SIZE // 4, SIZE // 4, SIZE // 4)
    assert list(found.zooms()) == list(range(0, -9, -1))


def test_a_period_of_a_map_that_was_there_in_between_reaches_as_far_as_it_did_then(tmp_path: Path) -> None:
    """On the first day and on the last nothing is there. A single day is empty all the same."""
    world, nothing = World(tmp_path), Tile(0, 9, 9)
    world.harvest(FIRST, {nothing: picture()})
    world.harvest(SECOND, {nothing: None})
    world.harvest(SECOND + timedelta(days=1), {Tile(0, 1, 1): picture(), Tile(0, 5, 1): picture()})
    world.harvest(SECOND + timedelta(days=2), {Tile(0, 5, 1): None, Tile(0, 1, 3): picture()})
    world.harvest(THIRD, {Tile(0, 1, 1): None, Tile(0, 1, 3): None})
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        period = {"first": str(SECOND), "last": str(THIRD)}
        assert excerpt_of(history, MAP, **period).box(0) == (0, -16, 24, 0)
        projection = map_outline(history, MAP).layers[0].latest.projection
        assert projection is not None
        x, z = projection.place_at(1, 3)
        area = f"{x:.0f},{z:.0f},{x:.0f},{z:.0f}"
        assert excerpt_of(history, MAP, first=str(SECOND), last=str(THIRD), area=area).box(0)
        assert excerpt_of(history, MAP, day=str(THIRD), area=area).box(0) is None
        assert excerpt_of(history, MAP, day=str(THIRD)).box(0) is None


@pytest.mark.parametrize(
    ("beyond", "box"),
    [(None, (2, -4, 4, 0)), (Tile.at(-2, 1, 0), (0, -8, 16, 8))],
)
def test_a_coarse_picture_ends_with_the_deepest_tiles_unless_some_are_missing(
    tmp_path: Path, beyond: Tile | None, box: tuple[int, int, int, int]
) -> None:
    """Of a tile of zoom -2 with 8 pixels a deepest tile shows two."""
    world, deep = World(tmp_path), [Tile.at(0, 1, -2), Tile.at(0, 1, -1)]
    above = {tile.ancestor(levels) for tile in deep for levels in (1, 2)}
    tiles = [*deep, *above] if beyond is None else [*deep, *above, beyond]
    world.harvest(FIRST, dict.fromkeys(tiles, picture()))
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        assert excerpt_of(history, MAP).box(-2) == box


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"layer": "nigth"}, "did you mean 'night'?"),
        ({"layer": NIGHT_LAYER}, "had no tile yet on 2021-05-12"),
        ({"day": "yesterday"}, "yesterday is not a day: write it as 2021-05-12"),
        ({"day": "2021-02-30"}, "2021-02-30 is not a day"),
        ({"day": "2021-02-12"}, "before the history of map 'world', which begins on 2021-02-13"),
        ({"last": "2021-02-12"}, "2021-02-12 is before the history"),
        (
            {"first": "2021-05-12", "last": "2021-02-16"},
            "the first day, 2021-05-12, is later than the last",
        ),
        ({"area": "spawm"}, "did you mean 'spawn'?"),
        ({"area": "1,2,3"}, "write two corners in blocks, such as --area=-100,-50,100,50"),
    ],
)
def test_what_a_map_does_not_have_is_said(history: History, wanted: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\S") as caught:
        excerpt_of(history, MAP, **wanted, named={"spawn": SPAWN})
    assert words in str(caught.value)


def test_a_map_of_the_earth_is_cut_by_degrees(tmp_path: Path) -> None:
    """Of the square of Mercator the quarter north and east of (0, 0) is the upper right one."""
    layer = Layer("zoom1", Pyramid(1), "png", tile_size=(256, 256), projection=mercator(1))
    with of_layer(tmp_path, layer, Tile.at(0, 1, 0), renderer="xyz") as history:
        found = excerpt_of(history, MAP, area="0,0,85.0511287,179.9999999").box(0)
    assert found is not None
    assert (found.width, found.height) == (256, 256)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        (None, [-3, -2, -1, 0]),
        ("-2..0", [-2, -1, 0]),
        ("-2..", [-2, -1, 0]),
        ("..-2", [-3, -2]),
        ("-1", [-1]),
    ],
)
def test_zooms_are_written_in_these_ways(text: str | None, chosen: list[int]) -> None:
    assert zooms_between([-3, -2, -1, 0], text) == chosen
    for wrong in ("1", "-9", "..", "", "0..-2", "deep"):
        with pytest.raises(ConfigurationError):
            zooms_between([-3, -2, -1, 0], wrong)
