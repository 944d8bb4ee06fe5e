"""Change indexes of published maps: what each tells from version to version, against what had changed."""

import asyncio
import gzip
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from tests.renderers.sites import PAGE, PublishedSite, of_map
from tests.servers.published import truth
from tileharvest.renderers.overviewer import parse_config
from tileharvest.renderers.registry import with_indexes
from tileharvest.renderers.site import Site
from tileharvest.walk.change_index import ChangedGround


def read(site: PublishedSite, renderer: str) -> Site:
    return asyncio.run(with_indexes(site.probed(renderer), site))


def test_regions_of_bluemap_tell_of_every_image_that_changed(shared_maps: Path, tmp_path: Path) -> None:
    name = "labyrinthmc"
    (world,) = [
        one for one in of_map(shared_maps, name, 2, tmp_path).probed("bluemap").layers if one.name == "world"
    ]
    indexes = [
        read(of_map(shared_maps, name, version, tmp_path), "bluemap").indexes for version in range(2, 6)
    ]
    # That of the other map has not been drawn by a version that writes them.
    assert {tuple(one) for one in indexes} == {("world",)}
    told = 0
    for (before, now), step in zip(pairwise(indexes), truth(shared_maps, name)[1:], strict=True):
        changed = now["world"].changed_since(before["world"])
        assert changed is not None
        ground = ChangedGround(changed, world.pyramid)
        urls = [f"{PAGE}{path}" for path in step.changed | step.added]
        tiles = [tile for tile in map(world.addresses.tile_of, urls) if tile is not None]
        assert tiles
        assert all(map(ground.has, tiles))
        told += len(changed)
    # Of 135 tiles of the finest zoom it has told of 113 in three steps.
    assert told < len(now["world"].tiles)


@pytest.mark.parametrize(
    ("name", "renderer", "renders"),
    [
        ("antworld", "overviewer", [True, True, True]),
        # The fourth version is not a render, but tiles that the third had forgotten.
        ("jgore43", "mapcrafter", [True, True, False]),
    ],
)
def test_a_stamp_is_another_one_after_each_render(
    name: str, renderer: str, renders: list[bool], shared_maps: Path, tmp_path: Path
) -> None:
    stamps = []
    for version in range(1, 5):
        (index,) = read(of_map(shared_maps, name, version, tmp_path), renderer).indexes.values()
        stamps.append(index)
    assert [one != other for one, other in pairwise(stamps)] == renders


def test_what_cannot_be_read_is_noted_and_the_harvest_does_without_it(
    shared_maps: Path, tmp_path: Path
) -> None:
    site = of_map(shared_maps, "labyrinthmc", 5, tmp_path)
    (site.folder / "maps/world/rstate/regions/x0/z0.regions.dat").write_bytes(b"no gzip")
    probed = read(site, "bluemap")
    assert probed.indexes == {}
    assert "layer world: its change index cannot be read: " in probed.notes[-1]
    assert "x0/z0.regions.dat is cut off, damaged or of another form" in probed.notes[-1]


@pytest.mark.parametrize(("column", "is_told"), [(62, True), (63, False)])
def test_a_world_that_may_go_on_beyond_the_four_files_has_no_index(
    shared_maps: Path, tmp_path: Path, column: int, *, is_told: bool
) -> None:
    site = of_map(shared_maps, "labyrinthmc", 5, tmp_path)
    file = site.folder / "maps/world/rstate/regions/x0/z0.regions.dat"
    times = [0] * 4096
    times[column] = 1_700_000_000
    file.unlink()
    file.write_bytes(
        gzip.compress(b"\x0b\x00\x11last-update-times\x00\x00\x10\x00" + struct.pack(">4096i", *times))
    )
    assert ("world" in read(site, "bluemap").indexes) is is_told


def test_the_tag_of_the_site_stands_in_for_the_time_of_a_tileset() -> None:
    def stamps(more: str, tag: str = '"cacheTag": "17"') -> list[str | None]:
        tileset = f'{{"path": "a", "zoomLevels": 3, "imgextension": "png"{more}}}'
        text = f'var overviewerConfig = {{"map": {{{tag}}}, "tilesets": [{tileset}]}};'
        return [layer.stamp for layer in parse_config(text, PAGE)]

    assert stamps(', "last_rendertime": 1613218216.5') == ["last_rendertime 1613218216.5"]
    assert stamps("") == stamps(', "last_rendertime": 0') == ["cacheTag 17"]
    assert stamps("", tag="") == [None]
    assert stamps(', "last_rendertime": 16, "render_in_progress": true') == [None]
