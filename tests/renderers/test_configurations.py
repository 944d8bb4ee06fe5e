"""What renderers' configurations say: of real sites as a person reads the files, and of made-up ones."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.renderers.sites import PAGE, PublishedSite, WrittenSite, of_map
from tileharvest.errors import ConfigurationError, ExitStatus, SiteError
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.bluemap import LEFT_ALONE
from tileharvest.renderers.regions import Pl3xMap, endless_pyramid
from tileharvest.renderers.registry import RENDERERS, probe, spots
from tileharvest.renderers.site import Fetched, UnrecognisedError
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import MOST_SEEDS, Pyramid
from tileharvest.walk.walk import Walk

TILES: Final = f"{PAGE}tiles/"
AROUND: Final = {(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)}


def layers(renderer: str, files: dict[str, Any], **keys: Any) -> tuple[Layer, ...]:
    return WrittenSite(files).probed(renderer, **keys).layers


# -- real sites. Of each layer: name, depth, kind of image, pixels, world, spawn, background, last render

CONFIGS: Final = {
    "overviewer-darkness4.js": [
        ("world-lighting", 7, "png", 384, "world", (-48, 80, -46), "#1a1a1a", 1563139226)
    ],
    "overviewer-salisbury.js": [
        ("world-lighting", 8, "png", 384, "world", (1168, 98, 1098), "#1a1a1a", 1513463415)
    ],
    "overviewer-maxzoom-below-zoomlevels.js": [
        ("normalrender", 11, "jpg", 384, "world - overworld", (-2817, 67, -8912), "#1a1a1a", 1533139239)
    ],
    "overviewer-north-3.js": [
        (name, 7, "png", 384, "myworld - overworld", (133, 80, 196), "#1a1a1a", 1517778564)
        for name in ("daytime", "nighttime")
    ],
    "overviewer-webp-three-tilesets.js": [
        ("world", 7, "webp", 384, "world - overworld", (327, 68, 345), "#1a1a1a", 1605479459),
        ("world-night", 7, "webp", 384, "world - overworld", (327, 68, 345), "#1a1a1a", 1605479459),
        ("world_nether", 6, "webp", 384, "world_nether - nether", None, "#1a1a1a", 1360591426),
    ],
    "mapcrafter-2-config.js": [
        ("map_myworld_topdown_day/tl", 6, "png", 288, "myworld", None, None, 1520139601)
    ],
    "mapcrafter-1.5-index.html": [
        ("map_backs_DSM/tl", 8, "png", 384, "backs_DSM", None, None, None)
    ],
    "dynmap-3-dynmap_config.json": [
        ("world/flat", 6, "png", 128, "world", (-160, 64, 32), None, None),
        ("world/surface", 8, "png", 128, "world", (-160, 64, 32), None, None),
        ("world/cave", 6, "png", 128, "world", (-160, 64, 32), None, None),
        ("world_nether/flat", 6, "png", 128, "world_nether", (0, 64, 0), "#300806", None),
        ("world_nether/nether", 8, "png", 128, "world_nether", (0, 64, 0), "#300806", None),
        ("world_the_end/flat", 6, "png", 128, "world_the_end", (0, 50, 0), None, None),
        ("world_the_end/the_end", 8, "png", 128, "world_the_end", (0, 50, 0), None, None),
    ],
}  # fmt: skip
MAPS: Final = {
    ("squaremap", "duckmap", 6): [
        ("minecraft_overworld", 4, "png", 512, "minecraft_overworld", (-399, 64, 78), None, None),
        ("minecraft_the_end", 4, "png", 512, "minecraft_the_end", (0, 64, 0), None, None),
        ("minecraft_the_nether", 4, "png", 512, "minecraft_the_nether", (0, 64, 0), None, None),
    ],
    ("pl3xmap", "sbatserver", 6): [
        ("minecraft-overworld/vintage_story", 4, "png", 512, "minecraft-overworld", (0, 64, 0), None, None),
        ("minecraft-the_nether/basic", 4, "png", 512, "minecraft-the_nether", (0, 64, 0), None, None),
        ("minecraft-the_end/basic", 4, "png", 512, "minecraft-the_end", (0, 64, 0), None, None),
    ],
    ("bluemap", "labyrinthmc", 5): [
        ("world", 3, "png", 500, "world (overworld)", (0, 64, 0), "#000000", None),
        ("hub_rainbow", 3, "png", 500, "Hub", (0, 64, 0), "#000000", None),
    ],
    # From uNmINeD's zoom 4, which is 0 here, to its -6.
    ("unmined", "helmetgreen", 2): [("tiles", 11, "jpg", 256, "HGWorld", None, None, None)],
}


def facts(found: tuple[Layer, ...]) -> list[tuple[Any, ...]]:
    assert all(one.tile_size[0] == one.tile_size[1] and not one.overlay for one in found)
    return [
        (
            *(one.name, one.depth, one.image_extension, one.tile_size[0]),
            *(one.world, one.spawn, one.background, one.rendered),
        )
        for one in found
    ]


@pytest.mark.parametrize("name", CONFIGS)
def test_a_real_configuration_has_the_values_that_the_file_shows(shared_maps: Path, name: str) -> None:
    renderer = name.partition("-")[0]
    file = {"mapcrafter-1.5-index.html": "", "dynmap-3-dynmap_config.json": "up/configuration"}
    file |= {"mapcrafter-2-config.js": "config.js"}
    body = (shared_maps / "configs" / name).read_bytes()
    found = layers(renderer, {file.get(name, "overviewerConfig.js"): body})
    assert facts(found) == CONFIGS[name]
    assert {one.north_direction for one in found} == {3 if "north-3" in name else 0}
    if renderer == "dynmap":
        assert [one.addresses.folder.rpartition("/")[2] for one in found[:3]] == ["flat", "t", "ct"]
    if "webp" in name:
        assert found[0].addresses.url_of(Tile(-5, 32, 32)) == f"{PAGE}world/1/2.webp?c=1692244637"


@pytest.mark.parametrize("which", MAPS, ids=lambda which: which[1])
def test_a_real_site_has_its_values(which: tuple[str, str, int], shared_maps: Path, tmp_path: Path) -> None:
    renderer, name, version = which
    site = of_map(shared_maps, name, version, tmp_path).probed(renderer)
    assert facts(site.layers) == MAPS[which]
    is_bluemap = renderer == "bluemap"
    assert {one.pyramid.factor for one in site.layers} == {5 if is_bluemap else 2}
    assert (site.notes, site.answers_head) == ((LEFT_ALONE,) if is_bluemap else (), not is_bluemap)


# -- Overviewer

TILESETS: Final = """var overviewerConfig = {"tilesets": [
    {"path": "day", "zoomLevels": 4, "imgextension": "png", "isOverlay": false},
    {"path": "ores", "zoomLevels": 4, "imgextension": "png", "isOverlay": ["Day"]},
    {"path": "caves", "zoomLevels": 3, "imgextension": "jpg", "isOverlay": true}]};"""


@pytest.mark.parametrize(("wanted", "kept"), [((), ["day"]), (("caves", "day"), ["caves", "day"])])
def test_the_layers_kept_are_those_named_or_no_overlays(wanted: tuple[str, ...], kept: list[str]) -> None:
    site = WrittenSite({"overviewerConfig.js": TILESETS})
    assert [layer.name for layer in site.probed("overviewer", layers=wanted).layers] == kept
    with pytest.raises(ConfigurationError, match="no layer 'night'; it has: day, ores, caves"):
        site.probed("overviewer", layers=("night",))


@pytest.mark.parametrize(
    ("base", "path", "folder"),
    [
        ("", "day", f"{PAGE}day"),
        ("http://tiles.example.org/x/", "day", "http://tiles.example.org/x/day"),
        ("http://tiles.example.org/x-", "day", "http://tiles.example.org/x-day"),
        ("/tiles/", "day", "https://map.example.net/tiles/day"),
        ("", "./data/renders/Isles/", f"{PAGE}data/renders/Isles/"),
        ("", "my world", f"{PAGE}my%20world"),
    ],
)
def test_base_and_path_are_joined_letter_by_letter(base: str, path: str, folder: str) -> None:
    text = TILESETS.replace('"path": "day"', f'"path": "{path}", "base": "{base}"')
    assert layers("overviewer", {"overviewerConfig.js": text})[0].addresses.folder == folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "is a Git-LFS pointer"),
        (TILESETS[:150], "is cut off"),
        ("", "does not set overviewerConfig"),
        ("var x = {};", "does not set overviewerConfig"),
        ("var overviewerConfig = {};", "tilesets"),
    ],
)
def test_text_that_is_no_configuration_is_refused_with_what_it_is(text: str, message: str) -> None:
    with pytest.raises(SiteError, match=message) as raised:
        layers("overviewer", {"overviewerConfig.js": text})
    assert raised.value.exit_status is ExitStatus.UNREACHABLE


# -- Mapcrafter


def mapcrafter(**keys: Any) -> tuple[Layer, ...]:
    described = {"imageFormat": "png", "maxZoom": 6, "rotations": [0, 1, 2, 3], "tileSize": 288}
    described |= {"textureSize": 6, "lastRendered": [1517115602, 0, 0, 5]} | keys
    config = json.dumps({"maps": {"m": described}})
    return tuple(layers("mapcrafter", {"config.js": f"var CONFIG = {config};"}))


def test_each_rotation_is_a_layer_with_a_folder_of_its_own() -> None:
    found = mapcrafter()
    assert [layer.name for layer in found] == ["m/tl", "m/tr", "m/br", "m/bl"]
    assert [layer.addresses.folder for layer in found] == [f"{PAGE}{layer.name}" for layer in found]
    assert [layer.rendered for layer in found] == [1517115602, None, None, 5]
    with pytest.raises(SiteError, match="has no layer"):
        mapcrafter(maxZoom=0)
    (other,) = mapcrafter(renderView="cubist", rotations=[0], tileSize=[576, 384])
    assert (other.projection, other.tile_size) == (None, (576, 384))


# -- Dynmap


def configuration(**keys: Any) -> dict[str, Any]:
    """With one world and one map, at whose deepest zoom a block is 4 pixels wide."""
    described = {"type": "HDMapType", "name": "flat", "prefix": "flat", "mapzoomout": 5, **keys}
    described.setdefault("worldtomap", [4, 0, 0, 0, 0, -4, 0, 1, 0])
    center = {"x": -160.0, "y": 64.0, "z": 40.0}
    return {"worlds": [{"name": "world", "center": center, "maps": [described]}]}


def dynmap(**keys: Any) -> tuple[Layer, ...]:
    return layers("dynmap", {"up/configuration": configuration(**keys)})


def test_a_map_by_day_and_by_night_is_two_layers() -> None:
    colours = {"background": "#111111", "backgroundday": "#aaaaff", "backgroundnight": "#000022"}
    night, day = dynmap(nightandday=True, **colours)
    assert (night.name, night.background) == ("world/flat", "#000022")
    assert (day.name, day.background) == ("world/flat_day", "#aaaaff")
    assert day.addresses.url_of(Tile(0, 1, -1)) == f"{TILES}world/flat_day/0_0/0_0.png"
    assert (night.pyramid, night.projection) == (day.pyramid, day.projection)


@pytest.mark.parametrize("keys", [{"type": "KzedMapType"}, {"worldtomap": None}])
def test_a_map_of_a_type_before_version_1_is_left_alone(keys: dict[str, Any]) -> None:
    with pytest.raises(SiteError, match="has no layer"):
        dynmap(**keys)


def test_a_walk_starts_around_the_worlds_centre_and_its_origin() -> None:
    """The centre lies 160 x 4 = 640 pixels to the left of the origin, five tiles, and 160 below it."""
    (layer,) = dynmap(mapzoomout=1)
    around = {Tile.at(-1, x + i, y + j) for x, y in ((-3, 1), (0, 0)) for i, j in AROUND}
    assert set(Walk(layer.pyramid).start()) == around
    (layer,) = dynmap()
    assert {Tile.at(-5, -2, -1), Tile.at(-5, 1, 1)} <= set(Walk(layer.pyramid).start())
    assert layer.pyramid.is_endless


def test_a_standalone_site_names_its_configuration_and_its_tiles(shared_maps: Path) -> None:
    configs = shared_maps / "configs"
    files = {
        "standalone/config.js": (configs / "dynmap-3-config.js").read_bytes(),
        "standalone/dynmap_config.json": (configs / "dynmap-3-dynmap_config.json").read_bytes(),
    }
    probed = WrittenSite(files).probed("dynmap")
    assert probed.layers[0].addresses.folder == f"{TILES}world/flat"
    assert probed.answers_head


@pytest.mark.parametrize(("script", "tells"), [("tiles.php", False), ("MySQL_tiles.php", True)])
def test_a_script_may_give_out_the_tiles(script: str, tells: bool) -> None:
    """As `generateConfigJS` writes it, and `getTileUrl` of `map.js` reads it. The script for files, of a site
    with a login, sends no validators."""
    addresses = "var config = {\n url : {\n  configuration: 'standalone/configuration.php',\n"
    addresses += f"  tiles: 'standalone/{script}?tile=',\n }}\n}};\n"
    site = WrittenSite({"standalone/config.js": addresses, "standalone/configuration.php": configuration()})
    probed = site.probed("dynmap")
    (layer,) = probed.layers
    url = layer.addresses.url_of(Tile(0, 1, -1))
    assert url == f"{PAGE}standalone/{script}?tile=world/flat/0_0/0_0.png"
    assert layer.addresses.tile_of(f"{url}&ts=1381780228000") == Tile(0, 1, -1)
    assert probed.answers_head is tells


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ("world/flat", SiteError, r"layer 'world'.*center"),
        ("world_nether/flat", ConfigurationError, r"no layer 'world_nether/flat'; it has: world$"),
    ],
)
def test_a_layer_of_a_refused_world_is_not_lacking(wanted: str, error: type[Exception], message: str) -> None:
    config = json.dumps(configuration()).replace("-160.0", '"far"')
    with pytest.raises(error, match=message):
        layers("dynmap", {"up/configuration": config}, layers=(wanted,))


def test_a_site_with_a_login_is_told() -> None:
    with pytest.raises(SiteError, match=r"says 'login-required' instead .*: is there a login\?"):
        layers("dynmap", {"up/configuration": {"error": "login-required"}})


# -- BlueMap


def bluemap(**keys: Any) -> dict[str, Any]:
    """The settings of a map, as versions 3 and later write them."""
    lowres = {"tileSize": [500, 500], "lodFactor": 5, "lodCount": 3}
    return {"name": "Overworld", "sorting": 0, "lowres": lowres, "voidColor": [0, 0.5, 1, 1]} | keys


@pytest.fixture
def labyrinth(shared_maps: Path, tmp_path: Path) -> PublishedSite:
    return of_map(shared_maps, "labyrinthmc", 5, tmp_path)


def test_maps_without_settings_and_folders_that_are_not_listed_are_left_out(labyrinth: PublishedSite) -> None:
    """The site lists two maps that are not there. Its own page says so in the console and goes on."""
    (labyrinth.folder / "maps" / "old").mkdir()
    (labyrinth.folder / "maps" / "old" / "settings.json").write_text(json.dumps(bluemap()))
    assert {one.name for one in labyrinth.probed("bluemap").layers} == {"world", "hub_rainbow"}


def test_of_many_maps_only_those_that_are_kept_are_asked_about(labyrinth: PublishedSite) -> None:
    labyrinth.probed("bluemap", layers=("hub_rainbow",))
    assert labyrinth.asked == [f"GET {PAGE}settings.json", f"GET {PAGE}maps/hub_rainbow/settings.json"]


def test_the_maps_may_lie_on_another_host() -> None:
    folder = "https://tiles.example.org/data/world"
    said = {"maps": ["world"], "mapDataRoot": "https://tiles.example.org/data"}
    (layer,) = layers("bluemap", {"settings.json": said, f"{folder}/settings.json": bluemap()})
    assert layer.addresses.url_of(Tile.at(0, 1, 2)) == f"{folder}/tiles/1/x1/z2.png"
    assert layer.host == "tiles.example.org"


def test_the_walk_begins_around_the_origin_and_the_start() -> None:
    """The start may lie at the edge of a tile, as the origin does, and the land on the other side of it."""
    settings = bluemap(startPos=[30_000, -13_000])
    (layer,) = layers("bluemap", {"settings.json": {"maps": ["w"]}, "maps/w/settings.json": settings})
    expected = AROUND | {(2 + right, -2 + down) for right, down in AROUND}
    assert {(tile.column, tile.row) for tile in Walk(layer.pyramid).start()} == expected
    assert {tile.zoom for tile in Walk(layer.pyramid).start()} == {-2}
    assert (layer.spawn, layer.background) == ((30_000, 64, -13_000), "#0080ff")


# -- squaremap and Pl3xMap

SETTINGS: Final = "tiles/settings.json"
WORLD: Final = '{"zoom": {"max": 3, "maxOut": 3}}'


def put(settings: Any) -> WrittenSite:
    return WrittenSite({SETTINGS: settings, "tiles/w/settings.json": WORLD})


def pl3xmap(**keys: Any) -> dict[str, Any]:
    world = {"name": "w", "renderers": [{"label": "basic"}, {"label": "night sky"}]}
    return {"worldSettings": [world], "format": "png"} | keys


@pytest.fixture
def duckmap(shared_maps: Path, tmp_path: Path) -> PublishedSite:
    return of_map(shared_maps, "duckmap", 6, tmp_path)


def test_who_is_online_makes_no_other_site() -> None:
    """The first file of Pl3xMap names the players, and is another one each second."""
    players = [{"name": "Steve", "world": "minecraft:overworld", "position": {"x": 1, "z": 2}}]
    assert put(pl3xmap(players=players)).probed("pl3xmap") == put(pl3xmap()).probed("pl3xmap")


def test_worlds_that_are_not_kept_are_not_asked_or_without_settings_no_layer(duckmap: PublishedSite) -> None:
    duckmap.probed("squaremap", layers=("minecraft_the_end",))
    assert duckmap.asked == [f"GET {PAGE}{SETTINGS}", f"GET {TILES}minecraft_the_end/settings.json"]
    (duckmap.folder / "tiles/minecraft_the_end/settings.json").unlink()
    assert "minecraft_the_end" not in [layer.name for layer in duckmap.probed("squaremap").layers]
    with pytest.raises(ConfigurationError, match="no layer 'minecraft_the_end'"):
        duckmap.probed("squaremap", layers=("minecraft_the_end",))


def test_a_tile_keeps_its_name_when_the_owner_adds_zooms() -> None:
    files = {SETTINGS: {"worlds": [{"name": "w"}]}, "tiles/w/settings.json": WORLD}
    (before,) = layers("squaremap", files)
    (after,) = layers("squaremap", files | {"tiles/w/settings.json": WORLD.replace("3", "5")})
    tile = before.addresses.tile_of(f"{TILES}w/3/-9_4.png")
    assert tile is not None
    assert after.addresses.url_of(tile) == f"{TILES}w/5/-9_4.png"
    assert after.depth == 6


def test_two_renderers_of_a_world_share_its_folder_and_no_address() -> None:
    site = put(pl3xmap(format="jpeg"))
    basic, night = site.probed("pl3xmap").layers
    tile = Tile.at(-1, -2, 5)
    assert basic.addresses.url_of(tile) == f"{TILES}w/1/basic/-2_5.jpeg"
    assert night.addresses.url_of(tile) == f"{TILES}w/1/night%20sky/-2_5.jpeg"
    assert night.image_extension == "jpg"
    assert night.addresses.tile_of(basic.addresses.url_of(tile)) is None
    site.asked.clear()
    assert site.probed("pl3xmap", layers=("w/night sky",)).layers == (night,)
    assert site.asked == [f"GET {PAGE}{SETTINGS}", f"GET {TILES}w/settings.json"]


@pytest.mark.parametrize("wholes", [(False, False, True), (False, False, False)])
def test_a_file_that_is_being_written_is_read_again_and_then_told(wholes: tuple[bool, ...]) -> None:
    """Pl3xMap empties each of its two files once a second, and writes it anew (`FileUtil.java`)."""
    bodies = iter(wholes)

    async def fetch(method: str, url: str) -> Fetched:
        text = json.dumps(pl3xmap()) if url.endswith(SETTINGS) else WORLD
        is_whole = next(bodies, True)
        return Fetched(200, text.encode()[: None if is_whole else 40], url)

    probing = Pl3xMap().probe(MapDescription(name="m", url=PAGE), fetch)
    if any(wholes):
        assert len(asyncio.run(probing).layers) == 2
    else:
        with pytest.raises(SiteError, match=r"tiles/settings\.json is cut off or damaged"):
            asyncio.run(probing)


def test_the_search_begins_around_the_origin_and_the_spawn_and_goes_over_one_empty_place() -> None:
    """A coarsest tile of four levels is 4,096 blocks wide."""
    pyramid = endless_pyramid(4, [(41_000, -4097)])
    around_origin = {(x, y) for x in range(-2, 2) for y in range(-2, 2)}
    around_spawn = {(10 + x, -2 + y) for x, y in AROUND}
    assert {(tile.column, tile.row) for tile in Walk(pyramid).start()} == around_origin | around_spawn
    assert Walk(pyramid).goes_sideways
    beside = {(tile.column, tile.row) for tile in pyramid.beside(Tile.at(-3, -1, -1))}
    assert {(-3, -2), (1, 1)} <= beside
    assert (-4, -1) not in beside


@pytest.mark.parametrize(
    ("renderer", "settings"), [("squaremap", pl3xmap()), ("pl3xmap", {"worlds": [{"name": "w"}]})]
)
def test_the_settings_of_the_other_renderer_are_not_taken_for_ones_own(renderer: str, settings: Any) -> None:
    with pytest.raises(UnrecognisedError, match=f"names the worlds of {RENDERERS[renderer].title}"):
        put(settings).probed(renderer)


# -- land far from the rest: endless layers are also searched from a site's markers

FLAT = {"type": "HDMapType", "name": "flat", "worldtomap": [4, 0, 0, 0, 0, -4]}
TOWN = {"x": 400_000, "z": -200_000}
SITES: dict[str, dict[str, Any]] = {
    "squaremap": {
        "tiles/settings.json": {"worlds": [{"name": "w"}]},
        "tiles/w/settings.json": {"zoom": {"max": 3}},
        "tiles/w/markers.json": [{"id": "towns", "markers": [{"type": "icon", "point": TOWN}]}],
    },
    "pl3xmap": {
        "tiles/settings.json": {"worldSettings": [{"name": "w", "renderers": [{"label": "basic"}]}]},
        "tiles/w/settings.json": {"zoom": {"maxOut": 3}},
        "tiles/w/markers.json": [{"key": "towns", "label": "Towns"}],
        "tiles/w/markers/towns.json": [{"type": "icon", "data": {"point": TOWN}}],
    },
    "bluemap": {
        "settings.json": {"maps": ["w"]},
        "maps/w/settings.json": {"lowres": {"tileSize": [500, 500], "lodFactor": 5, "lodCount": 3}},
        "maps/w/live/markers.json": {"towns": {"markers": {"a": {"position": {**TOWN, "y": 64}}}}},
    },
    "dynmap": {
        "up/configuration": {"worlds": [{"name": "w", "maps": [FLAT]}]},
        "tiles/_markers_/marker_w.json": {"sets": {"a": {"x": [TOWN["x"]], "z": [TOWN["z"]]}}},
    },
}


@pytest.mark.parametrize("renderer", SITES)
def test_a_town_far_away_is_among_the_places_at_which_a_walk_starts(renderer: str) -> None:
    files = SITES[renderer]

    def start(files: dict[str, Any]) -> set[Tile]:
        description = MapDescription(name="m", url=PAGE, renderer=renderer)
        (layer,) = asyncio.run(probe(description, WrittenSite(files))).layers
        assert layer.projection is not None
        return set(Walk(layer.pyramid).start())

    without = {path: said for path, said in files.items() if "marker" not in path}
    (town,) = start(files) - start(without)
    assert town.zoom == min(tile.zoom for tile in start(without))
    assert abs(town.column) > 10 or abs(town.row) > 10


def test_spots_are_all_pairs_of_x_and_z_within_a_world() -> None:
    value = [{"x": 1, "z": 2}, {"a": [{"x": [3, 4], "z": [5, 6]}]}, {"x": 9e9, "z": 0}, {"x": "1", "z": 2}]
    assert set(spots(value)) == {(1, 2), (3, 5), (4, 6)}


def test_an_endless_layer_is_searched_from_the_tiles_that_its_index_names() -> None:
    seed, far = Tile.at(-2, 0, 0), Tile.at(0, 4_000, 1_000)
    seeded = Pyramid.endless(3, (seed,)).seeded([far, far, seed])
    assert tuple(Walk(seeded).start()) == (seed, far.ancestor(2))
    assert len(seeded.seeded(Tile.at(-2, number, 9) for number in range(5_000)).seeds) == MOST_SEEDS
