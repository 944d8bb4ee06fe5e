"""How a harvest walks, with a real history: what it decides, skips, audits and withdraws."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from tests.middlewares.making import ALL, DAY, DEEPEST, FIRST_LEVEL, LATER, LAYER, added, opened
from tileharvest.harvest.walks import kept_in_words
from tileharvest.maps.description import MapDescription
from tileharvest.tiles.block import bit_of, blocks_of
from tileharvest.tiles.grid import Tile, Zone
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import ON_WALK, Step, TileResult
from tileharvest.tiles.verdict import Answer
from tileharvest.tiles.versions import Validator
from tileharvest.walk.walk import LEAST_AUDITED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from datetime import date
    from pathlib import Path

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.walk.walk import RememberedValidator

TOP, BELOW = FIRST_LEVEL[0], Tile(0, -1, 1)
"""The second lies below the first."""
BEGUN = datetime(2024, 4, 1, tzinfo=UTC)
LATEST = len(DEEPEST)
MISSING = Tile(0, -3, 3)
"""Below `TOP`; no test adds it."""


def said(tile: Tile, hours: int | None = None) -> Validator:
    """What the site says of a tile: the deepest are drawn an hour apart, those above with the newest."""
    age = hours if hours is not None else DEEPEST.index(tile) if tile in DEEPEST else LATEST
    return Validator(f'"{tile}"', format_datetime(BEGUN + timedelta(hours=age), usegmt=True))


def first(tiles: Iterable[Tile] = ALL) -> list[TileResult]:
    return [replace(added(tile), step=Step(seen=said(tile))) for tile in tiles if tile != MISSING]


def harvest(folder: Path, results: Iterable[TileResult] | None = None, day: date = DAY, **keys: Any) -> None:
    """A whole harvest, of everything if nothing else is said."""

    async def run() -> None:
        async with opened(folder, day, **keys) as harvest:
            await harvest.keep_results(list(first() if results is None else results))
            await harvest.finish()

    asyncio.run(run())


def during(folder: Path, look: Callable[[Harvest], Awaitable[Any]], day: date = LATER, **keys: Any) -> Any:
    """What is found in a harvest that is open."""

    async def run() -> Any:
        async with opened(folder, day, **keys) as harvest:
            return await look(harvest)

    return asyncio.run(run())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """After a full harvest, of the day before, that proves the law."""
    harvest(tmp_path)
    return tmp_path


def decided(folder: Path, day: date = LATER, **keys: Any) -> tuple[bool, str]:
    async def look(harvest: Harvest) -> tuple[bool, str]:
        decision = harvest.walks.decisions.layers[LAYER]
        return decision.is_pruned, decision.reason

    found: tuple[bool, str] = during(folder, look, day, **keys)
    return found


async def remembered(harvest: Harvest, tile: Tile) -> RememberedValidator | None:
    (block,) = blocks_of(LAYER, [tile])
    return (await harvest.look_up(block)).remembered.get(bit_of(tile))


async def skip(harvest: Harvest, *tops: Tile) -> None:
    skipping = [TileResult(LAYER, top, Outcome.IGNORED, step=Step(skips=True)) for top in tops or FIRST_LEVEL]
    await harvest.keep_results(list(skipping))


@pytest.mark.parametrize(
    "keys",
    [
        {"zooms": (-1, 0)},
        {"zones": (Zone(center=(0, 0), width=8, height=8, zoom=0),)},
        {"layers": ("world-day",)},
    ],
    ids=lambda keys: next(iter(keys)),
)
def test_what_is_kept_in_words_tells_whatever_decides_it(keys: dict[str, Any]) -> None:
    plain = MapDescription(name="one", url="http://one.example.net/")
    other = MapDescription(name="two", url="http://two.example.net/", audit=1.0)
    assert kept_in_words(other) == kept_in_words(plain)
    keeping = MapDescription(name="one", url=plain.url, **keys)
    assert kept_in_words(keeping) != kept_in_words(plain)


def to_audit(folder: Path, *tops: Tile, day: date = LATER, **keys: Any) -> list[Tile]:
    async def look(harvest: Harvest) -> list[Tile]:
        await skip(harvest, *tops)
        await harvest.counts()
        once = [tile for audit in harvest.walks.to_audit(LAYER) for tile in audit.tiles]
        await harvest.keep_results([TileResult(LAYER, once[0], Outcome.IGNORED)]) if once else None
        await harvest.counts()
        assert [tile for audit in harvest.walks.to_audit(LAYER) for tile in audit.tiles] == once
        return once

    found: list[Tile] = during(folder, look, day, **keys)
    return found


def test_audit_of_few_is_of_all_places_below_the_tops(folder: Path) -> None:
    """Also of the one where nothing is known: a tile may have been added there."""
    assert len(DEEPEST) < LEAST_AUDITED
    assert set(to_audit(folder)) == set(DEEPEST)
    assert set(to_audit(folder, TOP, day=LATER + timedelta(days=1))) == set(TOP.children())


def test_no_audit_of_what_was_not_skipped(folder: Path) -> None:
    assert to_audit(folder, walk="full") == []
    assert to_audit(folder, audit=0, day=LATER + timedelta(days=1)) == []


def test_audit_asks_only_at_zooms_that_are_kept(tmp_path: Path) -> None:
    steps = {tile: Step(seen=said(tile), is_kept=False) for tile in FIRST_LEVEL}
    tops = [TileResult(LAYER, tile, Outcome.IGNORED, step=step) for tile, step in steps.items()]
    harvest(tmp_path, [*tops, *first(DEEPEST)], zooms=(0, 0))
    assert set(to_audit(tmp_path, zooms=(0, 0))) == set(DEEPEST)


def test_withdrawn_trust_gives_the_tops_and_nothing_skips_any_more(folder: Path) -> None:
    async def look(harvest: Harvest) -> None:
        walks = harvest.walks

        async def step() -> Step:
            mark, is_pruned = await remembered(harvest, TOP), LAYER in walks.pruned
            walk, answer = harvest.layers[LAYER].walk, Answer(200, said(TOP))
            return walk.step(TOP, Outcome.IGNORED, answer, mark, ON_WALK, is_pruned=is_pruned)

        # Its mark is read while it is trusted.
        assert (await step()).skips
        await skip(harvest)
        await harvest.counts()
        assert set(walks.distrust(LAYER, "the reason")) == set(FIRST_LEVEL)
        assert await step() == Step(seen=said(TOP))
        assert walks.to_audit(LAYER) == []

    during(folder, look)
    assert decided(folder, LATER + timedelta(days=1)) == (False, "not to be relied on: the reason")
