"""Which tile a person has pushed, who may have said it in several ways."""

import pytest

from tileharvest.harvest.walks import LayerWalk, located, walk_over
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.addresses import PathAddresses
from tileharvest.tiles.grid import Tile, path_of, tile_at
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

DAY, NIGHT = (
    Layer(
        name, Pyramid(2), "png", PathAddresses(f"http://map.example.net/{name}", 2, "png", path_of, tile_at)
    )
    for name in ("day", "night")
)
TILE = Tile(0, -3, 3)
PAGE = "http://map.example.net/"


def found(pushed: str, *layers: Layer) -> tuple[str, Tile]:
    description = MapDescription(name="small", url="http://map.example.net/")
    walks = {layer.name: LayerWalk(layer, walk_over(description, layer)) for layer in layers or (DAY,)}
    return located(walks, pushed)


@pytest.mark.parametrize(
    ("pushed", "layers", "layer"),
    [
        (f"{PAGE}#tile=day/0_-3_3", (DAY, NIGHT), "day"),
        (f"{PAGE}#tile=/0_-3_3", (DAY,), "day"),
        (f"{PAGE}night/0/0.png", (DAY, NIGHT), "night"),
    ],
)
def test_a_tile_is_found_by_its_name_or_its_address(
    pushed: str, layers: tuple[Layer, ...], layer: str
) -> None:
    assert found(pushed, *layers) == (layer, TILE)


@pytest.mark.parametrize(
    ("pushed", "said"),
    [
        ("#tile=/0_-3_3", "layer '' is not harvested; it has: day, night"),
        ("#tile=dusk/0_-3_3", "layer 'dusk' is not harvested; it has: day, night"),
        ("#tile=day/0_9_1", "a request was dropped: "),
        ("day/x.png", "day/x.png is not a tile of the map; it was not asked"),
    ],
)
def test_what_the_map_does_not_have_is_refused_with_the_reason(pushed: str, said: str) -> None:
    with pytest.raises(LookupError, match=said):
        found(f"{PAGE}{pushed}", DAY, NIGHT)
