"""How the next harvest would walk, compared with what harvests then decide, and what a person has pushed."""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.history.making import DAY, LATER, LAYER, began, ended, first_harvest, put_empty_history
from tileharvest.harvest.walks import (
    LayerWalk,
    Walks,
    kept_in_words,
    located,
    next_walks,
    walk_over,
)
from tileharvest.history.database import History
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.addresses import QuadtreeAddresses
from tileharvest.tiles.grid import Tile, Zone
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.walk.decision import Decisions
from tileharvest.walk.walk import Walk

PROVED = "none of 3 tiles changed after the one above it, in 60 minutes"
DEPTHS = {LAYER: 3}


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    put_empty_history(tmp_path / "history.sqlite")
    with History.open(f"sqlite:///{tmp_path / 'history.sqlite'}") as opened:
        yield opened


def described(**keys: Any) -> MapDescription:
    return MapDescription(name="world", url="http://map.example.net/", **keys)


def harvested(history: History) -> MapDescription:
    """A map of which one full harvest is finished."""
    description = described()
    harvest = first_harvest(history)
    harvest.note_walk("full", "no full harvest is finished so far", kept_in_words(description))
    ended(harvest)
    return description


def on(
    history: History, description: MapDescription, day: date, depths: dict[str, int] = DEPTHS
) -> Decisions:
    return next_walks(history, description, depths, day)


@pytest.mark.parametrize(
    ("days", "words"),
    [
        pytest.param(3, f"pruned: {PROVED} (as of {DAY})", id="proved"),
        pytest.param(7, f"full: the last full walk was on {DAY}", id="due"),
    ],
)
def test_a_walk_is_told_with_its_reason_and_its_proof(history: History, days: int, words: str) -> None:
    walk = on(history, harvested(history), DAY + timedelta(days))
    assert walk.layers[LAYER].in_words == words
    assert walk.in_short == words.partition(":")[0]


def test_the_harvest_decides_as_it_was_told(history: History) -> None:
    description = harvested(history)
    told = on(history, description, LATER)
    layers: Any = {LAYER: LayerWalk(None, Walk(Pyramid(DEPTHS[LAYER])))}  # type: ignore[arg-type]  # not asked
    walks = Walks.begin(began(history, LATER), description, layers, (), None, {})
    assert walks.decisions == told


@pytest.mark.parametrize(
    "keys",
    [{"zooms": [-1, 0]}, {"zones": (Zone(center=(0, 0), width=8, height=8, zoom=0),)}, {"layers": (LAYER,)}],
)
def test_what_was_harvested_in_another_extent_or_never_is_walked_in_full(
    history: History, keys: dict[str, Any]
) -> None:
    assert not on(history, described(), LATER).is_pruned
    harvested(history)
    assert on(history, described(audit=1.0), LATER).is_pruned
    assert not on(history, described(**keys), LATER).is_pruned


@pytest.mark.parametrize(
    ("keys", "depth", "in_short"),
    [
        ({"url": "http://tiles.example.net/{x}/{y}.png", "canvas": {"tiles": [64, 64]}}, 1, "share"),
        ({"url": "http://tiles.example.net/{z}/{x}/{y}.png"}, 1, "share"),
        ({"url": "http://tiles.example.net/{z}/{x}/{y}.png"}, 3, "pruned"),
        ({"url": "http://tiles.example.net/{z}/{x}/{y}.png", "walk": "full"}, 1, "full"),
        ({}, 1, "pruned"),
    ],
)
def test_of_a_layer_of_one_zoom_a_share_of_the_empty_places_is_asked(
    history: History, keys: dict[str, Any], depth: int, in_short: str
) -> None:
    harvested(history)
    said = msgspec.convert({"name": "world", "url": "http://map.example.net/", **keys}, MapDescription)
    assert on(history, said, LATER, {LAYER: depth}).in_short == in_short


PAGE = "http://map.example.net/"
DAYLIGHT, NIGHT = (
    Layer(name, Pyramid(2), "png", QuadtreeAddresses(f"{PAGE}{name}", 2, "png")) for name in ("day", "night")
)
TILE = Tile(0, -3, 3)


def place_of(pushed: str, *layers: Layer) -> tuple[str, Tile]:
    walks = {layer.name: LayerWalk(layer, walk_over(described(), layer)) for layer in layers}
    return located(walks, pushed)


@pytest.mark.parametrize(
    ("pushed", "layers", "layer"),
    [
        (f"{PAGE}#tile=day/0_-3_3", (DAYLIGHT, NIGHT), "day"),
        (f"{PAGE}#tile=/0_-3_3", (DAYLIGHT,), "day"),
        (f"{PAGE}night/0/0.png", (DAYLIGHT, NIGHT), "night"),
    ],
)
def test_a_tile_is_found_by_its_name_or_address(pushed: str, layers: tuple[Layer, ...], layer: str) -> None:
    assert place_of(pushed, *layers) == (layer, TILE)


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
        place_of(f"{PAGE}{pushed}", DAYLIGHT, NIGHT)
