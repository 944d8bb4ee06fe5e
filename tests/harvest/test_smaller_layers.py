"""Maps of which a site has fewer zooms one day, because the owner has set them so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.middlewares.making import DAY, LATER, drawn, image_of, opened
from tests.renderers.sites import VERSIONS, of_map
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import TileResult

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.tiles.grid import Tile

ZOOMS = {
    "overviewer": ("overviewerConfig.js", '"zoomLevels": ', "7", "6"),
    "mapcrafter": ("config.js", '"maxZoom": ', "6", "5"),
    "unmined": ("unmined.map.properties.js", "minZoom: ", "-6", "-5"),
    "dynmap": ("up/configuration", '"mapzoomout": ', "4", "3"),
    "squaremap": ("tiles/minecraft_overworld/settings.json", '"max":', "3", "2"),
    "pl3xmap": ("tiles/minecraft-overworld/settings.json", '"maxOut":', "3", "2"),
    "bluemap": ("maps/hub_rainbow/settings.json", '"lodCount":', "3", "2"),
}
"""By renderer the file that says how many zooms there are, and the number before and after."""


@pytest.mark.parametrize("renderer", ZOOMS)
def test_a_map_of_which_the_site_has_a_zoom_less_has_not_moved(
    renderer: str, shared_maps: Path, tmp_path: Path
) -> None:
    site = of_map(shared_maps, *VERSIONS[renderer][0], tmp_path)
    before = site.probed(renderer)
    found = ((one.name, one.addresses.tile_of(url)) for one in before.layers for url in site.images())
    known = {(name, tile) for name, tile in found if tile is not None}
    file, said, many, fewer = site.folder / ZOOMS[renderer][0], *ZOOMS[renderer][1:]
    text = file.read_text(encoding="utf-8")
    assert said + many in text
    # Published files are links to what all tests share.
    file.unlink()
    file.write_text(text.replace(said + many, said + fewer), encoding="utf-8")
    after = site.probed(renderer)
    assert sum(one.depth for one in after.layers) < sum(one.depth for one in before.layers)
    body = drawn("any")
    asked: set[tuple[str, Tile]] = set()

    async def ask(harvest: Harvest, coming: Iterable[tuple[str, Tile]]) -> None:
        """Finds unchanged what is known. Every tile has an address."""
        waiting = [one for one in dict.fromkeys(coming) if one not in asked]
        while waiting:
            results, below = [], []
            for name, tile in waiting:
                layer, walk = harvest.layers[name]
                assert layer.addresses.url_of(tile)
                is_known = (name, tile) in known
                outcome = Outcome.IGNORED if is_known else Outcome.NOTHING
                results.append(TileResult(name, tile, outcome))
                below += [(name, one) for one in walk.below(tile, outcome, known=is_known)]
            asked.update(waiting)
            await harvest.keep_results(results)
            waiting = [one for one in below if one not in asked]

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

    asyncio.run(run())
    assert asked
