"""A harvest remembers and skips the same as a model of it, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import TypeAlias

import pytest
from msgspec import structs

from tests.history.making import LAYER, TileResult, began, found, record, tiles_of
from tests.walk.test_proof import dated
from tileharvest.history.database import History
from tileharvest.history.harvests import HarvestRecord
from tileharvest.history.trust import proofs
from tileharvest.tiles.block import blocks_of
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator
from tileharvest.walk.proof import Proof, prove

STEPS = 80
Marks: TypeAlias = dict[Tile, tuple[str | None, str | None, bool]]


def marks(harvest: HarvestRecord) -> Marks:
    """Returns the marks of all tiles that are not missing, each with whether it is trusted."""
    found: Marks = {}
    for zoom, edge in EDGES.items():
        for block in blocks_of(LAYER, TileRange(zoom, -edge, edge, -edge, edge)):
            known = harvest.look_up(block)
            for bit, mark in known.remembered.items():
                found[block.tile(bit)] = (*mark, bool(known.trusted >> bit & 1))
    return found


def compare(walks: RandomWalks) -> None:
    harvest, model = walks.harvest, walks.model
    assert marks(harvest) == model.marks
    assert set(tiles_of(harvest.tops(LAYER))) == set(model.skipping)
    skipped = harvest.skipped(LAYER, EVERYWHERE[LAYER])
    assert set(tiles_of(skipped)) == set(model.skipped)
    assert set(tiles_of(harvest.unasked(EVERYWHERE, 1000))) == model.unasked
    assert harvest.vanished(EVERYWHERE) == (
        len(model.gone & model.present),
        len(model.unasked - model.gone),
    )
    assert harvest.counts() == model.counts
    assert harvest.outcomes(LAYER, walks.tiles) == model.outcomes
    proof = proofs(walks.history, "world").get(LAYER)
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


KEPT = range(-2, 1)
TOP = -4
ABSENT = Validator()
DATES = [f"Sat, 13 Feb 2021 0{hour}:00:00 GMT" for hour in (6, 7, 9)]
END = datetime(2022, 1, 1, tzinfo=UTC)
EDGES = {zoom: 32 - (1 << -zoom) for zoom in range(TOP, 1)}
EVERYWHERE = {LAYER: [TileRange(zoom, -EDGES[zoom], EDGES[zoom], -EDGES[zoom], EDGES[zoom]) for zoom in KEPT]}


def lineage(tile: Tile) -> Iterator[Tile]:
    """All above a tile, from its parent to the first level."""
    while tile.zoom > TOP:
        tile = tile.parent()
        yield tile


def is_below(tile: Tile, tops: Iterable[Tile]) -> bool:
    return not set(lineage(tile)).isdisjoint(tops)


@dataclass
class Row:
    seen: Validator
    harvest: int
    whole: bool = False


@dataclass
class Model:
    rows: dict[Tile, Row] = field(default_factory=dict)
    present: set[Tile] = field(default_factory=set)
    versioned: set[Tile] = field(default_factory=set)
    outcomes: dict[Tile, Outcome] = field(default_factory=dict)
    tops: set[Tile] = field(default_factory=set)
    distrusted: bool = False
    harvest: int = 1
    proof: Proof | None = None
    withdrawn: bool = False
    asked: dict[Tile, int] = field(default_factory=dict)
    """The last harvest with a result of a tile."""
    last_full: int = 0
    """No harvest of this world says how it walks: each that finishes counts as one that has asked for all."""

    def record(self, result: TileResult) -> None:
        tile = result.tile
        if tile.zoom in KEPT or result.outcome is Outcome.FAILED:
            self.outcomes[tile] = result.outcome
            self.asked[tile] = self.harvest
        if result.outcome is Outcome.ADDED:
            self.present.add(tile)
            self.versioned.add(tile)
        if result.seen == ABSENT or result.outcome is Outcome.GONE:
            if tile in self.rows:
                self.rows[tile] = Row(ABSENT, self.harvest)
        elif result.seen is not None:
            self.rows[tile] = Row(result.seen, self.harvest)
        if result.skips and tile in self.marks:
            self.tops.add(tile)
        elif result.seen is not None or result.outcome in (Outcome.FAILED, Outcome.GONE):
            self.tops.discard(tile)
        if (result.outcome is Outcome.FAILED or result.doubts) and tile in self.rows:
            self.rows[tile].whole = False

    def doubt(self, tile: Tile) -> None:
        for one in (tile, *lineage(tile)):
            if one in self.rows:
                self.rows[one].whole = False

    def distrust(self) -> None:
        self.distrusted = self.withdrawn = True

    @property
    def skipping(self) -> set[Tile]:
        return set() if self.distrusted else self.tops

    @property
    def skipped(self) -> set[Tile]:
        return {tile for tile in self.present if is_below(tile, self.skipping)}

    @property
    def gone(self) -> set[Tile]:
        return {tile for tile, outcome in self.outcomes.items() if outcome is Outcome.GONE}

    @property
    def unasked(self) -> set[Tile]:
        return self.present - set(self.outcomes) - self.skipped

    @property
    def counts(self) -> Counter[Outcome]:
        skipped = [tile for tile in self.skipped - set(self.outcomes) if self.asked[tile] >= self.last_full]
        return Counter(self.outcomes.values()) + Counter({Outcome.SKIPPED: len(skipped)})

    def end(self, *, is_complete: bool) -> None:
        if self.distrusted:
            for row in self.rows.values():
                row.whole = False
        if is_complete:
            self.last_full = self.harvest
            self.present -= self.gone
            self._trust()
        for tile in [tile for tile, outcome in self.outcomes.items() if outcome is Outcome.FAILED]:
            self.doubt(tile)
        for tile in [tile for tile, row in self.rows.items() if not row.whole and row.seen != ABSENT]:
            self.doubt(tile)
        if is_complete and not self.tops and not self.distrusted:
            self.proof, self.withdrawn = prove(dated(self.times()), END.date()), False
        self.harvest += 1
        self.outcomes, self.tops, self.distrusted = {}, set(), False

    def _trust(self) -> None:
        for row in self.rows.values():
            row.whole = row.whole or row.harvest == self.harvest
        missing = {tile for tile, row in self.rows.items() if row.seen == ABSENT}
        for tile, row in list(self.rows.items()):
            if tile in missing or (row.harvest != self.harvest and is_below(tile, missing)):
                del self.rows[tile]

    def times(self) -> dict[Tile, str | None]:
        answered = {tile for tile, outcome in self.outcomes.items() if outcome is not Outcome.FAILED}
        times = {
            tile: self.rows[tile].seen.last_modified if tile in self.rows else None
            for tile in self.present & answered
        }
        for tile, row in self.rows.items():
            if tile not in self.versioned and tile not in self.outcomes and row.whole and row.seen != ABSENT:
                times[tile] = row.seen.last_modified
        return times

    @property
    def marks(self) -> Marks:
        return {
            tile: (row.seen.etag, row.seen.last_modified, row.whole and not self.distrusted)
            for tile, row in self.rows.items()
            if row.seen != ABSENT
        }


class RandomWalks:
    """Random harvests of one map beside the model of them.

    No result follows from another: all that a site, or a walk that goes wrong, might bring about is there.
    """

    def __init__(self, history: History, random: Random) -> None:
        self.history = history
        self.random = random
        self.model = Model()
        self.day = date(2021, 2, 13)
        ground = [Tile(0, 2 * random.randint(-16, 15) + 1, 2 * random.randint(-16, 15) + 1) for _ in range(8)]
        self.tiles = sorted({one for tile in ground for one in (tile, *lineage(tile))})
        self.harvest = self._begin()

    def _begin(self) -> HarvestRecord:
        self.day += timedelta(days=1)
        return began(self.history, self.day)

    def step(self) -> None:
        kind = self.random.random()
        if kind < 0.8:
            # Of several results for a tile which is kept is told elsewhere.
            asked = self.random.sample(self.tiles, self.random.randint(0, 6))
            batch = [self._result(tile) for tile in asked if tile not in self.model.outcomes]
            record(self.harvest, batch)
            for result in batch:
                self.model.record(result)
        elif kind < 0.85:
            tops = self.harvest.distrust(LAYER, "a change was found")
            assert set(tiles_of(tops)) == set(self.model.tops)
            self.model.distrust()
        else:
            # One in a few is left unfinished, which the next one ends.
            is_complete = kind < 0.95
            if kind < 0.97:
                self.harvest.finish(END, "finished" if is_complete else "moved")
            self.model.end(is_complete=is_complete)
            self.harvest = self._begin()

    def _result(self, tile: Tile) -> TileResult:
        random = self.random
        is_kept, is_there = tile.zoom in KEPT, tile in self.model.present
        if is_kept and not is_there:
            words = ["add", "add", "add", "404", "fail"]
        else:
            words = ["ign", "ign", "ign", "gone" if is_kept else "404", "fail"]
        outcome = Outcome(random.choice(words))
        result = structs.replace(found(outcome, tile), is_kept=is_kept)
        if outcome in (Outcome.NOTHING, Outcome.GONE):
            return structs.replace(result, seen=ABSENT)
        if outcome is Outcome.IGNORED and random.random() < 0.5:
            drawn = random.random()
            return structs.replace(result, skips=drawn < 0.5, doubts=drawn > 0.8)
        if outcome is Outcome.FAILED:
            return result
        seen = Validator(random.choice(['"1"', None]), random.choice([*DATES, None]))
        return structs.replace(result, seen=seen)
