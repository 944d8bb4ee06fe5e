"""The end of a pruned harvest, with a real history: what is asked before it may end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from tests.harvest.test_walks import BELOW, MISSING, harvest, said, skip
from tests.middlewares.making import DEEPEST, FIRST_LEVEL, LATER, LAYER, added, opened
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import Asked, Step, TileResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tileharvest.harvest.harvest import Harvest


Found = tuple[set[Tile], set[Asked]]


async def asked(harvest: Harvest) -> Found:
    """Which tiles, each once, and in which way, which is the same for all."""
    questions = await harvest.audit()
    tiles = [tile for _, tile, _ in questions]
    assert {layer.name for layer, _, _ in questions} <= {LAYER}
    assert len(set(tiles)) == len(tiles)
    return set(tiles), {asked for _, _, asked in questions}


NOTHING: Found = (set(), set())
AUDIT, REPAIR = {Asked(late=True, audited=True)}, {Asked(in_full=True)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    harvest(tmp_path)
    return tmp_path


def during(folder: Path, steps: Callable[[Harvest], Awaitable[None]], **keys: Any) -> None:
    async def run() -> None:
        async with opened(folder, LATER, **keys) as harvest:
            await steps(harvest)

    asyncio.run(run())


async def answer(harvest: Harvest) -> None:
    """All that is audited is as it was."""
    outcomes = {tile: Outcome.NOTHING if tile == MISSING else Outcome.IGNORED for tile in DEEPEST}
    await keep_together(harvest, *(TileResult(LAYER, tile, outcome) for tile, outcome in outcomes.items()))


async def keep_together(harvest: Harvest, *results: TileResult) -> None:
    """Keeps them in one transaction. Results that come one by one wait longer and longer for others."""
    await harvest.keep_results(list(results))


def test_skipped_places_are_asked_until_all_have_an_answer(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def steps(harvest: Harvest) -> None:
        await skip(harvest)
        assert await asked(harvest) == (set(DEEPEST), AUDIT)
        await harvest.keep_results([TileResult(LAYER, BELOW, Outcome.IGNORED)])
        assert await asked(harvest) == (set(DEEPEST) - {BELOW}, AUDIT)
        assert caplog.messages == []
        await answer(harvest)
        with caplog.at_level(logging.INFO):
            assert await asked(harvest) == NOTHING
        seed = harvest._record.identity
        told = f"layer {LAYER}: 16 of the skipped tiles were asked, seed {seed}: none had changed"
        assert caplog.messages == [told]

    during(folder, steps)


def test_a_breach_is_not_looked_for_before_all_is_answered(folder: Path) -> None:
    """Else it would depend on the order of answers what is withdrawn."""

    async def steps(harvest: Harvest) -> None:
        await skip(harvest)
        await harvest.keep_results([added(BELOW)])
        assert await asked(harvest) == (set(DEEPEST) - {BELOW}, AUDIT)

    during(folder, steps)


def test_after_a_breach_the_tops_are_asked_in_full_until_they_are_answered(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def steps(harvest: Harvest) -> None:
        await skip(harvest)
        await answer(harvest)
        await harvest.keep_results([added(BELOW)])
        assert await asked(harvest) == (set(FIRST_LEVEL), REPAIR)
        (message,) = caplog.messages
        found = f"tile {BELOW} had changed below one that had not, found on {LATER}"
        assert message.startswith(f"layer {LAYER}: {found}")
        # A process that was killed here, or another one, asks the same, and does not complain again.
        assert await asked(harvest) == (set(FIRST_LEVEL), REPAIR)
        assert len(caplog.messages) == 1
        tops = (TileResult(LAYER, top, Outcome.IGNORED, step=Step(seen=said(top))) for top in FIRST_LEVEL)
        await keep_together(harvest, *tops)
        assert await asked(harvest) == NOTHING

    during(folder, steps)
