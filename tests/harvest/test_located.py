"""Where a question is asked today: layers grow, and a person may push a tile without saying all of it."""

from __future__ import annotations

import pytest

from tileharvest.harvest.walks import LayerWalk, located, walk_over
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.quadtree import QuadtreeAddresses
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.questions import IN_FULL, TileQuestion

DAY, NIGHT = (
    Layer(name, Pyramid(2), "png", QuadtreeAddresses(f"http://map.example.net/{name}", 2, "png"))
    for name in ("day", "night")
)
TILE = Tile(0, -3, 3)
URL = "http://map.example.net/day/0/0.png"


def asked(question: TileQuestion, url: str = "", *layers: Layer) -> tuple[TileQuestion, str]:
    description = MapDescription(name="small", url="http://map.example.net/")
    walks = {layer.name: LayerWalk(layer, walk_over(description, layer)) for layer in layers or (DAY,)}
    return located(walks, question, url)


def test_a_tile_is_asked_at_the_address_that_it_has_now() -> None:
    question = TileQuestion("day", TILE, IN_FULL)
    assert asked(question, "http://map.example.net/day/0.png") == (question, URL)


def test_without_a_layer_the_only_one_is_meant() -> None:
    assert asked(TileQuestion(tile=TILE)) == (TileQuestion("day", TILE), URL)


def test_of_several_layers_one_must_be_named() -> None:
    with pytest.raises(LookupError, match=r"^layer '' is not harvested; it has: day, night$"):
        asked(TileQuestion(tile=TILE), "", DAY, NIGHT)


def test_an_address_tells_layer_and_tile() -> None:
    assert asked(TileQuestion(), URL.replace("day", "night"), DAY, NIGHT)[0] == TileQuestion("night", TILE)


@pytest.mark.parametrize(
    ("question", "url", "said"),
    [
        (
            TileQuestion(),
            "http://map.example.net/day/x.png",
            "day/x.png is no tile of the map; it was not asked",
        ),
        (TileQuestion("dusk", TILE), "", "layer 'dusk' is not harvested; it has: day"),
        (TileQuestion("day", Tile(0, 9, 1)), "", "a request was dropped: "),
    ],
)
def test_what_the_map_does_not_have_is_refused_with_the_reason(
    question: TileQuestion, url: str, said: str
) -> None:
    with pytest.raises(LookupError) as refused:
        asked(question, url)
    assert said in str(refused.value)
