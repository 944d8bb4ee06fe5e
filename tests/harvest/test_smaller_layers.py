"""Maps of which a site has fewer zooms or layers one day, because the owner has set them so."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.middlewares.making import DAY, LATER, drawn, image_of, opened
from tests.renderers.sites import VERSIONS, of_map
from tileharvest.harvest.harvest import Harvest
from tileharvest.history.database import History
from tileharvest.history.recorded_versions import versions_until
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import TileResult

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
            await harvest.keep_results([TileResult(*one, outcome) for one, outcome in outcomes.items()])

    async def run() -> None:
        async with opened(tmp_path, DAY, site=before) as first:
            image = image_of(body)
            added = [TileResult(*one, Outcome.ADDED, image=image, body=body) for one in known]
            await first.keep_results(added)
            await first.finish()
        async with opened(tmp_path, LATER, site=after) as second:
            await ask(second, [(one.layer, tile) for one, _ in second.first() for _, tile in one.tiles()])
            while unasked := await second.unasked():
                await ask(second, [(layer.name, tile) for layer, tile in unasked])
            counts = await second.finish()
            assert counts.keys() <= {Outcome.IGNORED, Outcome.NOTHING}
        with History.open(f"sqlite:///{tmp_path / 'history.sqlite'}") as history:
            present = versions_until(history, "small", LATER)
        assert {place for place, version in present.items() if not version.gone} == known

    asyncio.run(run())
    assert asked
