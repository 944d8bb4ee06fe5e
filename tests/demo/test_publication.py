"""The folders that the demo publishes, looked at as files and through the renderers."""

import io
from datetime import date
from pathlib import Path
from typing import Final

import pytest
from PIL import Image

from tests.renderers.sites import PAGE, PublishedSite
from tileharvest.demo.forms import FORMS
from tileharvest.demo.publication import publish
from tileharvest.demo.pyramid import changes
from tileharvest.demo.sprites import MATERIALS
from tileharvest.demo.world import landscape
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.registry import RENDERERS
from tileharvest.tiles.layers import Layer

FIRST_DAY: Final = date(2026, 11, 18)
SCALE: Final = 8
"""The blocks of the world along the edge of one of the island's blocks, where it is seen from above."""
DEPTHS: Final = (3, 3, 4)
MOVED: Final = {"0": "03", "1": "12", "2": "21", "3": "30"}
"""The places to which Overviewer's `tileset.py` moves the first level when a map grows."""

Snapshot = dict[str, tuple[bytes, float, int]]
"""Content, time and inode of the layer's files, by their digits: `031` for `0/3/1.png`; `base` is the whole
map."""


def snapshot(folder: Path) -> Snapshot:
    found = {}
    for file in (folder / "world-day").rglob("*.png"):
        digits = "".join(file.relative_to(folder / "world-day").with_suffix("").parts)
        found[digits] = file.read_bytes(), file.stat().st_mtime, file.stat().st_ino
    return found


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[Snapshot]:
    """The layer on each of the three days, each published over the one before."""
    folder = tmp_path_factory.mktemp("published")
    snapshots = []
    for day in (1, 2, 3):
        publish(day, FIRST_DAY, folder)
        snapshots.append(snapshot(folder))
    return snapshots


def test_a_new_day_replaces_only_what_differs(days: list[Snapshot]) -> None:
    pairs = [(days[0][path], days[1][path]) for path in days[0].keys() & days[1].keys()]
    assert all((one[2] != other[2]) == (one[:2] != other[:2]) for one, other in pairs)
    # What looks the same was drawn again only where its chunks were saved again.
    assert 0 < sum(one == other for one, other in pairs) < sum(one[0] == other[0] for one, other in pairs)


def test_the_predicted_changes_are_those_of_the_files(days: list[Snapshot]) -> None:
    before: dict[str, bytes] = {}
    for day, there in enumerate(days, 1):
        if DEPTHS[day - 1] > DEPTHS[max(0, day - 2)]:
            before = {MOVED[path[0]] + path[1:]: content for path, content in before.items()}
        now = {path: file[0] for path, file in there.items() if path != "base"}
        same = sum(before[path] == now[path] for path in before.keys() & now.keys())
        assert changes(day, FORMS["overviewer"].cut) == {
            "new": len(now.keys() - before.keys()),
            "changed": len(now.keys() & before.keys()) - same,
            "gone": len(before.keys() - now.keys()),
            "same": same,
        }
        before = now


def colour_at(site: PublishedSite, layer: Layer, x: float, z: float) -> tuple[int, ...]:
    """Returns the colour that the deepest existing image shows at a place, by the renderer's addresses and
    projection."""
    assert layer.projection is not None
    across, up = layer.projection.point_of(x, z)
    tiles = {tile: url for url in site.images() if (tile := layer.addresses.tile_of(url)) is not None}
    deepest = max(tile.zoom for tile in tiles)
    width = 2 << -deepest
    (url,) = (
        url
        for tile, url in tiles.items()
        if (tile.zoom, tile.column, tile.row) == (deepest, int(across // width), int(-up // width))
    )
    image = Image.open(io.BytesIO((site.folder / url.removeprefix(PAGE)).read_bytes())).convert("RGBA")
    place = [
        int(part % width / width * side) for part, side in zip((across, -up), layer.tile_size, strict=True)
    ]
    return tuple(image.getpixel((place[0], place[1])))


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.cut.is_from_above])
async def test_blocks_lie_where_the_renderer_says(name: str, tmp_path: Path) -> None:
    form = FORMS[name]
    publish(1, FIRST_DAY, tmp_path, form)
    site = PublishedSite(tmp_path)
    description = MapDescription(name="m", url=f"{PAGE}{form.page}")
    (layer,) = (await RENDERERS[name].probe(description, site)).layers
    ground, blocks = landscape(1)
    standing = {(x, z) for x, _, z in blocks}
    level = [
        place
        for place in sorted(ground)
        if place not in standing
        and {place, (place[0], place[1] - 1)} <= ground.keys()
        and ground[place].height == ground[place[0], place[1] - 1].height
        and (place[0], place[1] - 1) not in standing
    ]
    for x, z in level[:: len(level) // 7]:
        *colour, opacity = colour_at(site, layer, (x + 0.5) * SCALE, (z + 0.5) * SCALE)
        assert (tuple(colour), opacity) == (MATERIALS[ground[x, z].surface].top, 255)
    assert level[0][0] < 0 < level[-1][0]
