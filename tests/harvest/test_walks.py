"""How a harvest walks, with a real history: what it decides, skips, audits and withdraws."""

import asyncio
import dataclasses
import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.history.making import TileResult, image_of, tiles_of
from tests.middlewares.making import (
    ALL,
    DAY,
    DEEPEST,
    FIRST_LEVEL,
    LATER,
    LAYER,
    SITE,
    added,
    drawn,
    keep,
    opened,
    remember,
    unopened,
)
from tests.renderers.sites import VERSIONS, of_map
from tileharvest.harvest.harvest import Harvest
from tileharvest.history.change_indexes import stored_indexes
from tileharvest.history.database import History
from tileharvest.history.recorded_versions import versions_until
from tileharvest.history.site_files import MISSING as MISSING_FILE
from tileharvest.tiles.block import bit_of, blocks_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.verdict import Answer
from tileharvest.tiles.versions import Validator
from tileharvest.walk.change_index import ChangeIndex
from tileharvest.walk.walk import ON_WALK, Asked

TOP, BELOW = FIRST_LEVEL[0], Tile(0, -1, 1)
"""The second lies below the first."""
BEGUN = datetime(2024, 4, 1, tzinfo=UTC)
MISSING = Tile(0, -3, 3)
"""Below `TOP`; no test adds it."""
LAST = LATER + timedelta(days=1)
AUDIT, REPAIR = {Asked(late=True, audited=True)}, {Asked(in_full=True)}


def said(tile: Tile) -> Validator:
    """What the site says of a tile: the deepest are drawn an hour apart, those above with the newest."""
    age = DEEPEST.index(tile) if tile in DEEPEST else len(DEEPEST)
    return Validator(f'"{tile}"', format_datetime(BEGUN + timedelta(hours=age), usegmt=True))


def first() -> list[TileResult]:
    return [replace(added(tile), seen=said(tile)) for tile in ALL if tile != MISSING]


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """After a full harvest, of the day before, that proves the law."""
    await remember(tmp_path, *first())
    return tmp_path


async def skip(harvest: Harvest, *tops: Tile) -> None:
    await keep(harvest, [TileResult(LAYER, top, Outcome.IGNORED, skips=True) for top in tops])


async def answer(harvest: Harvest) -> None:
    """All that is audited is as it was."""
    outcomes = {tile: Outcome.NOTHING if tile == MISSING else Outcome.IGNORED for tile in DEEPEST}
    await keep(harvest, [TileResult(LAYER, tile, outcome) for tile, outcome in outcomes.items()])


async def asked(harvest: Harvest) -> tuple[set[Tile], set[Asked]]:
    """Which tiles, each once, and in which way, which is the same for all."""
    questions = await harvest.audit()
    tiles = tiles_of(block for block, _ in questions)
    assert {block.layer for block, _ in questions} <= {LAYER}
    assert len(set(tiles)) == len(tiles)
    return set(tiles), {asked for _, asked in questions}


@pytest.mark.parametrize(
    ("keys", "audited"), [({}, set(TOP.children())), ({"walk": "full"}, set()), ({"audit": 0}, set())]
)
async def test_an_audit_is_of_what_was_skipped_and_the_same_at_each_look(
    folder: Path, keys: dict[str, Any], audited: set[Tile]
) -> None:
    """Also of a place where nothing is known: a tile may have been added there."""
    async with opened(folder, LATER, **keys) as harvest:
        await skip(harvest, TOP)
        once = harvest.walks.to_audit(LAYER)
        tiles = [tile for audit in once for tile in audit.tiles]
        assert set(tiles) == audited
        await keep(harvest, [TileResult(LAYER, tile, Outcome.IGNORED) for tile in tiles[:1]])
        assert [audit.tiles for audit in harvest.walks.to_audit(LAYER)] == [audit.tiles for audit in once]


async def test_skipped_places_are_asked_until_all_have_an_answer(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(folder, LATER) as harvest:
        await skip(harvest, *FIRST_LEVEL)
        assert await asked(harvest) == (set(DEEPEST), AUDIT)
        await keep(harvest, [TileResult(LAYER, BELOW, Outcome.IGNORED)])
        assert await asked(harvest) == (set(DEEPEST) - {BELOW}, AUDIT)
        assert caplog.messages == []
        await answer(harvest)
        with caplog.at_level(logging.INFO):
            assert await asked(harvest) == (set(), set())
        seed = harvest._record.identity
        told = f"layer {LAYER}: 16 of the skipped tiles were asked, seed {seed}: none had changed"
        assert caplog.messages == [told]


async def test_after_a_breach_the_tops_are_asked(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(folder, LATER) as harvest:
        await skip(harvest, *FIRST_LEVEL)
        await keep(harvest, [added(BELOW)])
        # It is not looked for before all is answered: else the order of answers would decide.
        assert await asked(harvest) == (set(DEEPEST) - {BELOW}, AUDIT)
        await answer(harvest)
        await keep(harvest, [added(BELOW)])
        assert await asked(harvest) == (set(FIRST_LEVEL), REPAIR)
        (message,) = caplog.messages
        found = f"tile {BELOW} had changed below one that had not, found on {LATER}"
        assert message.startswith(f"layer {LAYER}: {found}")
        # A process that was killed here, or another one, asks the same, and does not complain again.
        assert await asked(harvest) == (set(FIRST_LEVEL), REPAIR)
        assert len(caplog.messages) == 1
        await keep(harvest, [TileResult(LAYER, top, Outcome.IGNORED, seen=said(top)) for top in FIRST_LEVEL])
        assert await asked(harvest) == (set(), set())


async def test_withdrawn_trust_gives_the_tops_and_nothing_skips_any_more(folder: Path) -> None:
    (block,) = blocks_of(LAYER, [TOP])
    async with opened(folder, LATER) as harvest:
        walks = harvest.walks

        async def steps() -> tuple[dict[int, Validator], int, int]:
            known, answers = await harvest.look_up(block), {bit_of(TOP): Answer(200, said(TOP))}
            marks, is_pruned = (known.remembered, known.trusted), walks.decisions.layers[LAYER].is_pruned
            walk, found = harvest.layers[LAYER].walk, {Outcome.IGNORED: block.mask}
            return walk.steps(block, found, answers, *marks, ON_WALK, is_pruned=is_pruned)

        # Its mark is read while it is trusted.
        assert await steps() == ({}, block.mask, 0)
        await skip(harvest, *FIRST_LEVEL)
        assert set(tiles_of(walks.distrust(LAYER, "the reason"))) == set(FIRST_LEVEL)
        assert await steps() == ({bit_of(TOP): said(TOP)}, 0, 0)
        assert walks.to_audit(LAYER) == []
    async with opened(folder, LAST) as harvest:
        decision = harvest.walks.decisions.layers[LAYER]
        assert (decision.is_pruned, decision.reason) == (False, "not to be relied on: the reason")


async def test_missing_files_are_looked_for_unless_the_next_walk_relies_on_indexes(folder: Path) -> None:
    harvest, missing = unopened(folder, LATER), {"a": MISSING_FILE}
    await harvest.open(dataclasses.replace(SITE, indexes={LAYER: ChangeIndex("rendered")}), missing)
    await harvest.finish()
    await harvest.close()
    for keys in ({"walk": "full"}, {"zooms": (-1, 0)}, {"full_every": 1}):
        assert await unopened(folder, LAST, **keys).site_files() == ({}, False)
    assert await unopened(folder, LAST).site_files() == (missing, True)
    async with opened(folder, LAST) as harvest:
        # This time the site has no index that could be read.
        assert harvest.walks.decisions.layers[LAYER].change_index is None


async def test_a_walk_that_kept_to_a_wrong_index_begins_again_at_its_start_once(tmp_path: Path) -> None:
    site = dataclasses.replace(SITE, indexes={LAYER: ChangeIndex("rendered on the first day")})
    async with opened(tmp_path, DAY, site=site) as harvest:
        await keep(harvest, first())
        await harvest.finish()
    async with opened(tmp_path, LATER, site=site) as harvest:
        assert not list(harvest.walks.first())
        walks = harvest.walks
        repairs = [set(tiles_of(walks.distrust(LAYER, "the reason", is_untold=True))) for _ in range(2)]
        # The index is not relied on any more.
        assert stored_indexes(harvest._record.history, "small")[LAYER].withdrawn == "the reason"
    assert repairs[0] >= set(FIRST_LEVEL)
    assert not repairs[1] & set(FIRST_LEVEL)


# -- of which the site has fewer zooms or layers one day, because the owner has set them so


LESS = {
    "a zoom of overviewer": ("overviewerConfig.js", '"zoomLevels": 7', '"zoomLevels": 6'),
    "a zoom of mapcrafter": ("config.js", '"maxZoom": 6', '"maxZoom": 5'),
    "a zoom of unmined": ("unmined.map.properties.js", "minZoom: -6", "minZoom: -5"),
    "the deepest zoom of unmined": ("unmined.map.properties.js", "maxZoom: 9", "maxZoom: -1"),
    "a zoom of dynmap": ("up/configuration", '"mapzoomout": 4', '"mapzoomout": 3'),
    "a zoom of squaremap": ("tiles/minecraft_overworld/settings.json", '"max":3', '"max":2'),
    "a zoom of pl3xmap": ("tiles/minecraft-overworld/settings.json", '"maxOut":3', '"maxOut":2'),
    "a zoom of bluemap": ("maps/hub_rainbow/settings.json", '"lodCount":3', '"lodCount":2'),
    "a layer of bluemap": ("settings.json", '"world",', ""),
}
"""What a site has less than the day before: the file that says it, and what it says before and after."""


@pytest.mark.parametrize("less", LESS)
def test_a_map_of_which_the_site_publishes_less_has_not_moved_and_all_that_is_known_stays(
    less: str, shared_maps: Path, tmp_path: Path
) -> None:
    renderer = less.rpartition(" ")[2]
    site = of_map(shared_maps, *VERSIONS[renderer][0], tmp_path)
    before = site.probed(renderer)
    found = ((one.name, one.addresses.tile_of(url)) for one in before.layers for url in site.images())
    known = {(name, tile) for name, tile in found if tile is not None}
    name, said, fewer = LESS[less]
    file = site.folder / name
    text = file.read_text(encoding="utf-8")
    assert said in text
    # Published files are links to what all tests share.
    file.unlink()
    file.write_text(text.replace(said, fewer), encoding="utf-8")
    after = site.probed(renderer)
    assert after.layers != before.layers
    body = drawn("any")
    asked: set[tuple[str, Tile]] = set()

    async def ask(harvest: Harvest, coming: Iterable[tuple[str, Tile]]) -> None:
        """Finds unchanged what is known. Every tile has an address."""
        while waiting := [one for one in dict.fromkeys(coming) if one not in asked]:
            asked.update(waiting)
            coming = []
            for name, tile in waiting:
                layer, walk = harvest.layers[name]
                assert layer.addresses.url_of(tile)
                coming += [(name, below) for below in walk.below(tile) if (name, tile) in known]
            outcomes = {one: Outcome.IGNORED if one in known else Outcome.NOTHING for one in waiting}
            await keep(harvest, [TileResult(*one, outcome) for one, outcome in outcomes.items()])

    async def run() -> None:
        async with opened(tmp_path, DAY, site=before) as first:
            image = image_of(body)
            added = [TileResult(*one, Outcome.ADDED, image=image, body=body) for one in known]
            await keep(first, added)
            await first.finish()
        async with opened(tmp_path, LATER, site=after) as second:
            coming = [block for block, _ in second.walks.first()]
            await ask(second, [(one.layer, tile) for one in coming for _, tile in one.tiles()])
            while unasked := await second.unasked():
                await ask(second, [(one.layer, tile) for one in unasked for _, tile in one.tiles()])
            counts = await second.finish()
            assert counts.keys() <= {Outcome.IGNORED, Outcome.NOTHING}
        with History.open(f"sqlite:///{tmp_path / 'history.sqlite'}") as history:
            assert versions_until(history, "small", LATER).keys() == known

    asyncio.run(run())
    assert asked
