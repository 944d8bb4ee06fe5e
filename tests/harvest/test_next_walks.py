"""How the next harvest would walk, as it is told beforehand: compared with what harvests then decide."""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.history.making import DAY, LATER, LAYER, began, ended, first_harvest, put_empty_history
from tileharvest.harvest.walks import LayerWalk, WalkRecords, Walks, kept_in_words, next_walks
from tileharvest.history.database import History
from tileharvest.maps.description import MapDescription
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


def harvested(history: History, **keys: Any) -> MapDescription:
    """A map with such keys, of which one full harvest is finished."""
    description = described(**keys)
    harvest = first_harvest(history)
    harvest.note_walk("full", "no full harvest is finished so far", kept_in_words(description))
    ended(harvest)
    return description


def on(
    history: History, description: MapDescription, day: date, depths: dict[str, int] = DEPTHS
) -> Decisions:
    return next_walks(WalkRecords.read(history, "world"), description, depths, day)


@pytest.mark.parametrize(
    ("keys", "days", "words"),
    [
        pytest.param({}, 3, f"pruned: {PROVED} (as of {DAY})", id="proved"),
        pytest.param({}, 7, f"full: the last full walk was on {DAY}", id="due"),
        pytest.param({"walk": "full"}, 3, "full: walk = full is set", id="set"),
        pytest.param({"full_every": 8}, 7, f"pruned: {PROVED} (as of {DAY})", id="due later"),
    ],
)
def test_the_walk_is_told_with_its_reason_and_its_proof(
    history: History, keys: dict[str, Any], days: int, words: str
) -> None:
    walk = on(history, harvested(history, **keys), DAY + timedelta(days))
    assert walk.layers[LAYER].in_words == words
    assert walk.in_short == words.partition(":")[0]


def test_the_harvest_decides_as_it_was_told(history: History) -> None:
    description = harvested(history)
    told = on(history, description, LATER)
    layers: Any = {LAYER: LayerWalk(None, Walk(Pyramid(DEPTHS[LAYER])))}  # type: ignore[arg-type]  # not asked
    walks = Walks.begin(began(history, LATER), description, layers, LATER)
    assert walks.decisions == told


def test_other_zooms_and_a_map_that_was_never_harvested_are_walked_in_full(history: History) -> None:
    assert not on(history, described(), LATER).is_pruned
    harvested(history)
    assert not on(history, described(zooms=[-1, 0]), LATER).is_pruned


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
