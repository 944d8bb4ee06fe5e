"""Where places of the world lie on the grid: numbers by the formulas of each renderer's own page."""

import json
from typing import Any, Final

import pytest

from tests.renderers.sites import WrittenSite
from tests.renderers.test_unmined import bitmap, properties
from tileharvest.renderers.overviewer import projection_of
from tileharvest.renderers.xyz import latitude_of, mercator, south_of
from tileharvest.tiles.ground import Projection

MATRICES: Final = {
    "flat": [4.0, 0.0, -2.4492935982947064e-16, -2.4492935982947064e-16, 0.0, -4.0],
    "isometric": [
        *(11.31370849898476, 0.0, -11.313708498984761),
        *(-5.6568542494923815, 13.856406460551018, -5.656854249492381),
    ],
    "cave": [
        *(2.82842712474619, 0.0, -2.8284271247461903),
        *(-2.4494897427831783, 1.9999999999999998, -2.449489742783178),
    ],
}
"""Those of `iso_S_90_lowres`, `iso_SE_30_hires` and `iso_SE_60_lowres`, as a published site of Dynmap has
them."""


def projection(renderer: str, files: dict[str, Any]) -> Projection:
    found = WrittenSite(files).probed(renderer).layers[0].projection
    assert found is not None
    return found


def of_mapcrafter(turns: int, **keys: Any) -> Projection:
    described = {"imageFormat": "png", "maxZoom": 8, "rotations": [turns], "textureSize": 12, **keys}
    config = {"maps": {"m": described}, "tileSetGroups": {"g": {"tileOffsets": OFFSETS, "tileWidth": 3}}}
    return projection("mapcrafter", {"config.js": f"var CONFIG = {json.dumps(config)};"})


def of_dynmap(matrix: str, scale: int) -> Projection:
    described = {"type": "HDMapType", "name": "flat", "worldtomap": MATRICES[matrix], "tilescale": scale}
    return projection("dynmap", {"up/configuration": {"worlds": [{"name": "w", "maps": [described]}]}})


OFFSETS: Final = [[0, 0], [2, 0], [0, 3], [-4, 5]]
BLUEMAP: Final = {
    "settings.json": {"maps": ["w"]},
    "maps/w/settings.json": {"lowres": {"tileSize": [500, 500], "lodFactor": 5, "lodCount": 3}},
}
UNMINED: Final = {
    "unmined.map.properties.js": properties(),
    "unmined.map.regions.js": bitmap([(0, 0)]),
}
SQUAREMAP: Final = {
    "tiles/settings.json": {"worlds": [{"name": "w"}]},
    "tiles/w/settings.json": {"zoom": {"max": 3}},
}

Place = tuple[float, float, float]
PLACES: Final[list[tuple[Projection, dict[Place, tuple[float, float]]]]] = [
    # `fromWorldToLatLng` of its `util.js`, which takes the middle of a block.
    (projection_of(384, 0), {(0.5, 64, 0.5): (-0.9375, -12.0), (7.5, 255, -0.5): (-0.5625, 0.1875)}),
    (projection_of(384, 1), {(-219.5, 64, -88.5): (-8.1875, -1.875)}),
    (projection_of(384, 1), {(100_000.5, -9, 3.5): (6249.8125, -3141.1875)}),
    (projection_of(384, 2), {(0.5, 64, 0.5): (0.9375, -12.0), (7.5, 255, -0.5): (0.5625, -0.3125)}),
    (projection_of(384, 3), {(-219.5, 64, -88.5): (8.1875, -22.125)}),
    (projection_of(384, 3), {(100_000.5, -9, 3.5): (-6249.8125, 3108.0625)}),
    (projection_of(256, 0), {(15.5, 64, 15.5): (1.90625, -18.0)}),
    # `mcToLatLng` of version 1, with the offset (3, -2), in each rotation.
    *(
        (of_mapcrafter(turns, tileSize=384, tileOffsets=4 * [[3, -2]]), found)
        for turns, found in enumerate(
            (
                {(-220, 64, -89): (-26.3125, -20.09375), (7, 255, -1): (-6.625, -3.8125)},
                {(-220, 64, -89): (16.8125, 9.65625), (7, 255, -1): (25.5, 11.75)},
                {(-220, 64, -89): (76.3125, -11.90625), (7, 255, -1): (56.625, -4.3125)},
                {(-220, 64, -89): (33.1875, -41.65625), (7, 255, -1): (24.5, -19.875)},
            )
        )
    ),
    # Top-down: (x, z) * tileSize / (16 tileWidth) + S / 2 - offset * tileSize, as the shared README says.
    *(
        (of_mapcrafter(turns, tileSize=288, renderView="topdown", tileSetGroup="g"), found)
        for turns, found in enumerate(
            (
                {(-220, 64, -89): (-9.1666667, 3.7083333), (100_000, 64, 31): (4166.6666667, -1.2916667)},
                {(-220, 64, -89): (21.0416667, 9.1666667), (100_000, 64, 31): (16.0416667, -4166.6666667)},
                {(-220, 64, -89): (30.5, -19.0416667), (100_000, 64, 31): (-4145.3333333, -14.0416667)},
                {(-220, 64, -89): (4.2916667, -20.5), (100_000, 64, 31): (9.2916667, 4155.3333333)},
            )
        )
    ),
    # `fromLocationToLatLng` of `hdmap.js`.
    (of_dynmap("flat", 0), {(-220, 64, -89): (-13.75, 3.5625), (7, 255, -1): (0.4375, -1.9375)}),
    (of_dynmap("flat", 2), {(-220, 64, -89): (-3.4375, -0.609375), (7, 255, -1): (0.109375, -1.984375)}),
    (of_dynmap("isometric", 0), {(-220, 64, -89): (-23.1577471, 39.1684059)}),
    (of_dynmap("isometric", 2), {(7, 255, -1): (0.3535534, 11.6696974)}),
    (of_dynmap("cave", 0), {(-220, 64, -89): (-5.7894368, 11.8264427), (7, 255, -1): (0.3535534, 5.7391103)}),
    # `loadMapArea` of `Map.js`: the finest tile is floor(x / tileSize).
    (projection("bluemap", BLUEMAP), {(499, 64, 500): (1.996, -2.0), (-1, 64, -12_500): (-0.004, 50.0)}),
    # `Image.java`: a deepest tile is a region of 512 blocks. `TileImage.java` of Pl3xMap draws the same.
    (projection("squaremap", SQUAREMAP), {(-399, 64, 512): (-1.55859375, -2.0)}),
    # `tileUrlFunction` of its page: at its zoom 4, which is 0 here, a tile of 256 pixels is 16 blocks.
    (projection("unmined", UNMINED), {(-220, 64, 89): (-27.5, -11.125), (255, 64, 256): (31.875, -32.0)}),
    # "Slippy map tilenames" of OpenStreetMap's wiki: Berlin, Quito and Sydney, at zoom 9.
    (mercator(9), {(13.405, 0, south_of(52.52)): (550.1297778, -335.8260847)}),
    (mercator(9), {(-78.4678, 0, south_of(-0.1807)): (288.8027022, -512.5139920)}),
    (mercator(9), {(151.2093, 0, south_of(-33.8688)): (942.1064533, -614.4944655)}),
]


@pytest.mark.parametrize(
    ("its", "place", "point"), [(its, *one) for its, found in PLACES for one in found.items()]
)
def test_a_place_lies_where_a_page_has_it(its: Projection, place: Place, point: tuple[float, float]) -> None:
    east, height, south = place
    assert its.point_of(east, south, height) == pytest.approx(point, abs=1e-6)
    if height == its.height:
        assert its.place_at(*its.point_of(east, south)) == pytest.approx((east, south), abs=1e-6)


@pytest.mark.parametrize("north", [52.52, -0.1807, 0.0, 85.05])
def test_a_latitude_comes_back_from_the_projection(north: float) -> None:
    assert latitude_of(south_of(north)) == pytest.approx(north)
