"""The addresses of each renderer's tiles, as its own page writes them, and what its own server answers."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.renderers.sites import PAGE
from tests.viewer.building import picture
from tileharvest.maps.template import Template
from tileharvest.renderers import bluemap, dynmap, unmined
from tileharvest.renderers.addresses import PathAddresses, QuadtreeAddresses, TemplateAddresses
from tileharvest.renderers.registry import RENDERERS
from tileharvest.tiles.block import Block
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.verdict import Answer
from tileharvest.tiles.versions import Validator

FOLDER: Final = f"{PAGE}tiles/world"

Kind = QuadtreeAddresses | PathAddresses | TemplateAddresses
ADDRESSES: Final[dict[str, Kind]] = {
    "overviewer": QuadtreeAddresses(FOLDER, 12, "png", query="?c=16"),
    "mapcrafter": QuadtreeAddresses(FOLDER, 12, "png", first_digit=1),
    "dynmap": PathAddresses(FOLDER, 6, "png", dynmap.write_path, dynmap.read_path),
    "bluemap": PathAddresses(FOLDER, 3, "png", bluemap.write_path, bluemap.read_path),
    "squaremap": TemplateAddresses(Template(f"{FOLDER}/{{z}}/{{x}}_{{y}}.png"), 4, 3),
    "pl3xmap": TemplateAddresses(Template(f"{FOLDER}/{{z}}/basic/{{x}}_{{y}}.png"), 4, step=-1),
    "unmined": PathAddresses(FOLDER, 27, "jpeg", unmined.write_path, unmined.read_path),
}

TILES: Final = {
    # The known tile of the design.
    "overviewer": {(-3, -28, -14): "/0/3/3/3/2/0/1/2/0.png?c=16", (-3, 0, -1): "/1/2/2/2/2/2/2/2/2.png?c=16"},
    "mapcrafter": {(-3, -28, -14): "/1/4/4/4/3/1/2/3/1.png", (-3, 0, -1): "/2/3/3/3/3/3/3/3/3.png"},
    # In deepest tiles, rows upwards, 32 x 32 tiles to a folder (`getTileName` of `hdmap.js`).
    "dynmap": {
        (0, 0, 0): "/0_0/0_0.png",
        (0, -3, 6): "/-1_-1/-3_-6.png",
        (0, 32, -32): "/1_1/32_32.png",
        (-1, -2, 3): "/-1_-1/z_-4_-6.png",
        (-2, 1, -1): "/0_0/zz_4_4.png",
        (-5, -1, 1): "/-1_-1/zzzzz_-32_-32.png",
    },
    # Each digit but the last is a folder (`pathFromCoords` of `Utils.js`).
    "bluemap": {
        (0, -12, 3): "/1/x-1/2/z3.png",
        (-1, 10, -205): "/2/x1/0/z-2/0/5.png",
        (-2, -1, -1): "/3/x-1/z-1.png",
        (0, 59999, -60000): "/1/x5/9/9/9/9/z-6/0/0/0/0.png",
    },
    "squaremap": {(0, -9, 4): "/3/-9_4.png", (-3, -2, 0): "/0/-2_0.png"},
    "pl3xmap": {(0, 10, 7): "/0/basic/10_7.png", (-3, 1, 0): "/3/basic/1_0.png"},
    # Zoom 4 of uNmINeD is 0 here; folders are columns and rows by tens.
    "unmined": {(-4, -75, 12): "/zoom.0/-8/1/tile.-75.12.jpeg", (-1, 0, 9): "/zoom.3/0/0/tile.0.9.jpeg"},
}
"""Zoom, column and row of tiles, each with its path."""

NO_TILES: Final = {
    "overviewer": ["/4.png", "/0/0.jpg", "/base.png", "", "x/0.png"],
    "mapcrafter": ["/2/0.png", "/5.png"],
    "dynmap": [
        *("/0_0/z_1_0.png", "/0_0/32_0.png", "/0_0/00_0.png", "/0_0/-0_0.png", "/0_0/_0_0.png"),
        *("/0_0/zzzzzz_0_0.png", "/0_0/0_0.jpg", "/0_0/0_99999999999999999999.png", "ly/0_0/0_0.png"),
    ],
    "bluemap": [
        *("/1/x01/z0.png", "/1/x0/1/z0.png", "/1/x-0/z0.png", "/1/x-/z0.png", "/1/x1//z0.png"),
        *("/01/x0/z0.png", "/4/x0/z0.png", "/1/x0z0.png"),
    ],
    "squaremap": [
        *("/4/0_0.png", "/5/-1_0.png", "/0/-0_1.png", "/0/01_1.png", "/0/1_1.jpg", "/0/basic/1_1.png"),
    ],
    "pl3xmap": ["/3/blockinfo/1_1.pl3xmap.gz", "/4/basic/0_0.png", "/0/1_1.png"],
    "unmined": [
        *("/zoom.0/-7/1/tile.-75.12.jpeg", "/zoom.0/0/0/tile.-0.1.jpeg", "/zoom.0/0/0/tile.00.1.jpeg"),
        *("/zoom.5/0/0/tile.1.1.jpeg", "/zoom.0/0/0/tile.1.1.png", "/zoom.0/metadata/k.0.0.csv"),
        "/zoom.-99999/0/0/tile.1.1.jpeg",
    ],
}


@pytest.mark.parametrize(
    ("renderer", "place", "path"),
    [(renderer, *one) for renderer, tiles in TILES.items() for one in tiles.items()],
)
def test_a_tile_has_one_address_and_any_query(renderer: str, place: tuple[int, int, int], path: str) -> None:
    tile, addresses = Tile.at(*place), ADDRESSES[renderer]
    assert addresses.url_of(tile) == f"{FOLDER}{path}"
    assert addresses.tile_of(f"{FOLDER}{path}") == tile
    assert addresses.tile_of(f"{FOLDER}{path.partition('?')[0]}?1381780228000") == tile
    assert addresses.tile_of(f"{FOLDER}{path}".replace("/world", "/w%6Frld")) == tile


@pytest.mark.parametrize(
    ("renderer", "path"), [(renderer, path) for renderer, paths in NO_TILES.items() for path in paths]
)
def test_an_address_that_a_renderer_does_not_write_is_of_no_tile(renderer: str, path: str) -> None:
    assert ADDRESSES[renderer].tile_of(f"{FOLDER}{path}") is None


KINDS: Final[list[Kind]] = [
    *ADDRESSES.values(),
    *(QuadtreeAddresses(FOLDER, depth, "png") for depth in range(1, 6)),
    TemplateAddresses(Template(f"{FOLDER}/{{z}}/{{x}}/{{-y}}/{{x}}.png"), 6, 6),
    TemplateAddresses(Template(f"{FOLDER}/{{q}}.png"), 5, 5),
    TemplateAddresses(Template(f"{FOLDER}/{{x}}/{{y}}.png"), 1, 11),
]
near = st.integers(-3, 3)
blocks = st.builds(Block, st.just("day"), st.integers(-12, 0), near, near, st.integers(1, 2**64 - 1))


@given(st.sampled_from(KINDS), blocks)
def test_a_block_has_the_addresses_of_its_tiles_in_order_or_none(kind: Kind, block: Block) -> None:
    """Near the centre, at the edges of small depths, and beyond them."""
    try:
        expected = [(bit, kind.url_of(tile)) for bit, tile in block.tiles()]
    except ValueError:
        with pytest.raises(ValueError, match=r"coarser|outside|quadkey"):
            kind.urls_of(block)
    else:
        assert block.zoom > -kind.depth
        assert list(kind.urls_of(block).items()) == expected


# -- answers


BLANK, DRAWN = picture((0, 0, 0, 0), 128), picture((255, 0, 0, 128), 128)
MISSING, NOTHING = Answer(404), Validator()
MODIFIED: Final = "Mon, 14 Oct 2013 19:50:28 GMT"
THERE = Validator('"1747239314000"', MODIFIED)
HASH, SHARED = Validator('"305419896"'), Validator('"1234567890"', MODIFIED)

REGIONS: Final = [
    # `IntegratedServer.java` of squaremap, `HttpdServer.java` of Pl3xMap: 200, no bytes and no ETag.
    (Answer(200, NOTHING, 0), MISSING),
    (Answer(200, NOTHING, None), None),
    (Answer(200, THERE, 0), None),
    (Answer(200, THERE, 672), None),
    (Answer(304, NOTHING, 0), None),
    (Answer(503, NOTHING, 0), None),
]
ANSWERS: Final = {
    # A plain file server's answers are taken as they are.
    "overviewer": [(answer, None) for answer in (Answer(200, THERE, 672), Answer(404), Answer(503))],
    "squaremap": REGIONS,
    "pl3xmap": REGIONS,
    "bluemap": [(Answer(204), MISSING), *((Answer(status), None) for status in (200, 304, 404, 500))],
    "dynmap": [
        # `MapStorageResourceHandler.java`, where `tr == null`: the ETag of 0x12345678, and the blank image.
        (Answer(200, HASH, len(BLANK)), MISSING),
        (Answer(200, Validator('W/"305419896"'), len(BLANK), BLANK), MISSING),
        # Older servers and scripts send it without an ETag. Without the bytes nobody knows.
        (Answer(200, length=len(BLANK)), None),
        (Answer(200, length=len(BLANK), body=BLANK), MISSING),
        (Answer(200, length=len(DRAWN), body=DRAWN), None),
        # A blank image that a host keeps as a file is a tile.
        (Answer(200, Validator('"5f-2a0"', MODIFIED), len(BLANK), BLANK), None),
        # `MySQL_tiles.php` and its like, where nothing is found.
        (Answer(302, location="../images/blank.png"), MISSING),
        (Answer(302, location=f"{PAGE}images/blank.png"), MISSING),
        (Answer(301, location=f"{PAGE}new/0_0.png"), None),
        # A hash that several tiles share tells no state (`FileTreeMapStorage.java`).
        (Answer(200, SHARED, 672), Answer(200, Validator(None, MODIFIED), 672)),
        (Answer(200, Validator('W/"-17"', MODIFIED), 672), Answer(200, Validator(None, MODIFIED), 672)),
        # A hash that a database keeps for each tile stands between single quotes, and one alone is left.
        (Answer(200, Validator("'1234567890'", MODIFIED), 672), None),
        (Answer(200, Validator('"1234567890"'), 672), None),
    ],
}
"""Answers by renderer, each with what it means. None: as it is."""


@pytest.mark.parametrize(
    ("renderer", "answer", "meant"),
    [(renderer, *one) for renderer, answers in ANSWERS.items() for one in answers],
)
def test_what_the_answer_of_a_server_means(renderer: str, answer: Answer, meant: Answer | None) -> None:
    assert RENDERERS[renderer].understood(answer) == (meant or answer)
