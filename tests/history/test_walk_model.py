"""A harvest remembers and skips the same as a model of it, step by step."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.history.making import LAYER, look_up
from tests.history.walk_model import EDGES, EVERYWHERE, RandomWalks
from tileharvest.history.database import History
from tileharvest.history.proofs import proofs
from tileharvest.tiles.block import blocks_of
from tileharvest.tiles.grid import Tile, TileRange, unpacked

if TYPE_CHECKING:
    from tileharvest.history.harvests import HarvestRecord
    from tileharvest.walk.trust import RememberedValidator

STEPS = 80


def marks(harvest: HarvestRecord) -> dict[Tile, RememberedValidator]:
    """Returns the marks of all tiles that are not missing."""
    return {
        block.tile(bit): mark
        for zoom, edge in EDGES.items()
        for block in blocks_of(LAYER, TileRange(zoom, -edge, edge, -edge, edge))
        for bit, mark in look_up(harvest, block).remembered.items()
    }


def compare(walks: RandomWalks) -> None:
    harvest, model = walks.harvest, walks.model
    assert marks(harvest) == model.marks
    assert harvest.tops(LAYER) == sorted(model.skipping)
    assert sorted(unpacked(harvest.skipped(LAYER, EVERYWHERE[LAYER]))) == sorted(model.skipped)
    assert {tile for _, tile in harvest.unasked(EVERYWHERE, 1000)} == model.unasked
    assert harvest.vanished(EVERYWHERE) == (
        len(model.gone & model.present),
        len(model.unasked - model.gone),
    )
    assert harvest.counts() == model.counts
    assert harvest.outcomes(LAYER, walks.tiles) == model.outcomes
    proof = proofs(walks.history, "world").get("world", {}).get(LAYER)
    assert (proof is not None and proof.withdrawn is not None) == model.withdrawn
    if proof is not None and model.proof is not None:
        known = replace(proof, day=model.proof.day, withdrawn=None, withdrawn_day=None)
        assert known == model.proof


def run(history: History, seed: int) -> int:
    """How many tiles were skipped, over all steps."""
    walks = RandomWalks(history, Random(seed))
    skipped = 0
    for _ in range(STEPS):
        walks.step()
        compare(walks)
        skipped += len(walks.model.skipped)
    return skipped


@pytest.mark.parametrize("seed", range(5))
def test_what_is_remembered_and_skipped_is_that_of_the_model(seed: int) -> None:
    with History.open_temporary() as history:
        assert run(history, seed)


def test_what_is_remembered_and_skipped_on_a_server_is_that_of_the_model(
    emptied_postgresql: History,
) -> None:
    assert run(emptied_postgresql, 8)
