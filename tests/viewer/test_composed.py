"""Pictures of levels that the history lacks, as a client gets them."""

from __future__ import annotations

import io
import random
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image as Pillow

from tests.viewer.asking import of_area, serving
from tests.viewer.averaging import averaged, farthest_apart, noise, pixels_of
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    GREEN,
    MAP,
    RED,
    SECOND,
    SIZE,
    THIRD,
    picture,
    square,
)
from tileharvest.store.port import sha1_of
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.versions import Image

if TYPE_CHECKING:
    from tests.viewer.asking import Client, Reply
    from tests.viewer.building import World

API = f"/api/v1/maps/{MAP}"
A, TOP = Tile(0, 1, 1), Tile(-1, 2, 2)
LATER = date(2021, 8, 8)


def composed(
    client: Client, tile: Tile | str, day: date | str, layer: str = DAY_LAYER, **headers: str
) -> Reply:
    return client.get(f"{API}/composed/{tile}/{day}.png", {"layer": layer}, **headers)


def colours(reply: Reply) -> list[tuple[int, ...]]:
    """Of the middle of each quarter, in the order of Overviewer's digits."""
    image = Pillow.open(io.BytesIO(reply.body))
    assert (image.format, image.mode, image.size) == ("PNG", "RGBA", (SIZE, SIZE))
    at = (SIZE // 4, 3 * SIZE // 4)
    found: list[Any] = [image.getpixel((x, y)) for y in at for x in at]
    return found


def test_four_tiles_make_one(world: World) -> None:
    upper_left, upper_right, lower_left, lower_right = TOP.children()
    world.harvest(
        FIRST,
        {
            upper_left: picture(RED),
            upper_right: picture(GREEN),
            lower_left: picture(BLUE),
            lower_right: picture((9, 9, 9, 255)),
        },
    )
    with serving(world) as client:
        reply = composed(client, TOP, FIRST)
    assert reply.headers["Content-Type"] == "image/png"
    assert colours(reply) == [RED, GREEN, BLUE, (9, 9, 9, 255)]


def test_what_is_missing_or_gone_is_clear(world: World) -> None:
    upper_left, upper_right, _, lower_right = TOP.children()
    world.harvest(FIRST, {upper_left: picture(RED), upper_right: picture(GREEN)})
    world.harvest(SECOND, {upper_right: None})
    world.harvest(THIRD, {lower_right: picture(BLUE)})
    with serving(world) as client:
        clear = (0, 0, 0, 0)
        assert colours(composed(client, TOP, FIRST)) == [RED, GREEN, clear, clear]
        assert colours(composed(client, TOP, SECOND)) == [RED, clear, clear, clear]
        assert colours(composed(client, TOP, THIRD)) == [RED, clear, clear, BLUE]


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_picture_is_the_mean_of_what_lies_in_it(world: World, levels: int) -> None:
    chance = random.Random(levels)
    tiles = square(0, 1 << levels, -(1 << levels) // 2, 0)
    images = {tile: noise(chance, SIZE) for tile in chance.sample(tiles, len(tiles) * 3 // 4)}
    world.harvest(FIRST, images)
    top = TileRange(0, *([min(tiles).x] * 2), *([min(tiles).y] * 2))
    tile = Tile(0, top.x_from, top.y_from)
    for _ in range(levels):
        tile = tile.parent()
    with serving(world) as client:
        found = pixels_of(composed(client, tile, FIRST).body)
    # Each level rounds the colours and the opacity.
    assert farthest_apart(found, averaged(tile, images, SIZE)) <= 2 * levels


def test_a_clear_edge_darkens_nothing(world: World) -> None:
    half = Pillow.new("RGBA", (SIZE, SIZE), (0, 0, 0, 0))
    half.paste((200, 100, 50, 255), (0, 0, SIZE // 2 + 1, SIZE))
    body = io.BytesIO()
    half.save(body, "PNG")
    upper_left = TOP.children()[0]
    world.harvest(FIRST, {upper_left: body.getvalue()})
    with serving(world) as client:
        image = Pillow.open(io.BytesIO(composed(client, TOP, FIRST).body))
    edge: Any = image.getpixel((SIZE // 4, 1))
    assert max(abs(a - b) for a, b in zip(edge, (200, 100, 50, 128), strict=True)) <= 1


@pytest.mark.parametrize("size", [1, 3, SIZE - 1, SIZE, SIZE + 3, 2 * SIZE, 100])
def test_images_of_another_size_are_made_to_fit(world: World, size: int) -> None:
    world.harvest(FIRST, dict.fromkeys(TOP.children(), picture(RED, size)))
    with serving(world) as client:
        assert colours(composed(client, TOP, FIRST)) == [RED] * 4


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (7, 7), (16, 16), (51, 34), (34, 51)])
def test_a_picture_has_the_size_of_the_layer_s_tiles_that_day(world: World, size: tuple[int, int]) -> None:
    world.harvest(FIRST, {A: picture()})
    world.harvest(SECOND, {}, described=Layer(DAY_LAYER, Pyramid(10), "png", tile_size=size))
    with serving(world) as client:
        for day, wanted in ((FIRST, (SIZE, SIZE)), (SECOND, size), (THIRD, size)):
            image = Pillow.open(io.BytesIO(composed(client, TOP, day).body))
            assert image.size == wanted


def test_the_parts_of_a_picture_that_is_no_square_lie_where_the_tiles_do(world: World) -> None:
    wide = Layer(DAY_LAYER, Pyramid(10), "png", tile_size=(60, 40))
    tiles = dict(zip(TOP.children(), (RED, GREEN, BLUE, (9, 9, 9, 255)), strict=True))
    world.harvest(FIRST, {tile: picture(one, 60, 40) for tile, one in tiles.items()}, described=wide)
    with serving(world) as client:
        image = Pillow.open(io.BytesIO(composed(client, TOP, FIRST).body))
    boxes = [(0, 0, 30, 20), (30, 0, 60, 20), (0, 20, 30, 40), (30, 20, 60, 40)]
    assert [image.crop(box).getcolors() for box in boxes] == [[(600, one)] for one in tiles.values()]


@pytest.mark.parametrize(("form", "extension"), [("JPEG", "jpg"), ("WEBP", "webp"), ("PNG", "png")])
@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1"])
def test_images_of_every_kind(world: World, form: str, extension: str, mode: str) -> None:
    body = io.BytesIO()
    white = Pillow.new("RGB", (SIZE, SIZE), (255, 255, 255)).convert(mode)
    (white.convert("RGB") if form != "PNG" and mode in "P1" else white).save(body, form)
    world.harvest(FIRST, dict.fromkeys(TOP.children(), body.getvalue()), extension=extension)
    with serving(world) as client:
        assert colours(composed(client, TOP, FIRST)) == [(255, 255, 255, 255)] * 4


@pytest.mark.parametrize("later", [(), (SECOND,)], ids=["the last day", "the past"])
def test_a_day_is_asked_for_again_as_an_import_may_change_it(world: World, later: tuple[date, ...]) -> None:
    for day in (FIRST, *later):
        world.harvest(day, {A: picture()})
    with serving(world) as client:
        reply = composed(client, TOP, FIRST)
        again = composed(client, TOP, FIRST, if_none_match=reply.headers["ETag"])
    assert reply.headers["Cache-Control"] == again.headers["Cache-Control"] == "no-cache"
    assert (again.status, again.body) == (304, b"")


def test_what_changes_again_on_the_last_day_is_another_picture(world: World) -> None:
    world.harvest(FIRST, {A: picture(RED)}, finished=False)
    with serving(world) as client:
        before = composed(client, TOP, FIRST)
        world.harvest(FIRST, {A: picture(BLUE)}, finished=False)
        after = composed(client, TOP, FIRST, if_none_match=before.headers["ETag"])
        assert after.status == 200
    assert RED in colours(before)
    assert BLUE in colours(after)


def test_what_changes_again_far_below_is_another_picture_too(world: World) -> None:
    world.harvest(FIRST, dict.fromkeys(square(0, 16), picture(RED)), finished=False)
    top = Tile(-4, 16, 16)
    with serving(world) as client:
        before = composed(client, top, FIRST)
        world.harvest(FIRST, {Tile(0, 31, 31): picture(BLUE)}, finished=False)
        after = composed(client, top, FIRST)
    assert before.headers["ETag"] != after.headers["ETag"]
    assert before.body != after.body


def test_days_between_changes_have_the_same_picture(world: World) -> None:
    world.harvest(FIRST, {A: picture()})
    world.harvest(SECOND, {Tile(0, -1, -1): picture()})
    world.harvest(THIRD, {A: picture(BLUE)})
    with serving(world) as client:
        tags = [
            composed(client, TOP, day).headers["ETag"]
            for day in (FIRST, date(2021, 2, 14), SECOND, THIRD, LATER)
        ]
    assert tags[0] == tags[1] == tags[2] != tags[3] == tags[4]


def test_a_view_names_pictures_that_are_there(world: World) -> None:
    world.harvest(FIRST, dict.fromkeys(square(0, 6, -3, -3), picture()))
    world.harvest(SECOND, {A: picture(BLUE), Tile(0, -5, -5): None})
    with serving(world) as client:
        for zoom in (-1, -2, -3, -5):
            unit = 1 << -zoom
            area = TileRange(zoom, -unit, unit, -unit, unit)
            view = client.get(f"{API}/view", of_area(area, layer=DAY_LAYER, day=SECOND)).json
            assert len(view["composed"]) == 4
            for where, day in view["composed"].items():
                reply = composed(client, f"{zoom}_{where}", day)
                assert reply.status == 200
                assert reply.body == composed(client, f"{zoom}_{where}", SECOND).body
                assert reply.headers["Cache-Control"] == "no-cache"


def test_the_next_deeper_kept_zoom_is_what_a_picture_is_made_of(world: World) -> None:
    """Not the deepest: what the site drew there may differ."""
    world.harvest(FIRST, {A: picture(RED), **dict.fromkeys(Tile(-2, 4, 4).children(), picture(BLUE))})
    with serving(world) as client:
        assert colours(composed(client, Tile(-2, 4, 4), FIRST)) == [BLUE] * 4


@pytest.mark.parametrize("damage", [None, b"", b"no image", picture(BLUE)])
def test_a_damaged_image_is_left_out(
    world: World, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    upper_left, upper_right, *_ = TOP.children()
    good, bad = picture(RED), picture(GREEN)
    world.harvest(FIRST, {upper_left: good, upper_right: bad})
    world.harvest(SECOND, {})
    file = damaged(world, bad, damage)
    with serving(world) as client:
        broken = [composed(client, TOP, FIRST) for _ in range(3)]
        file.write_bytes(bad)
        restored = composed(client, TOP, FIRST)
    for reply in broken:
        assert reply.status == 200
        assert colours(reply)[:2] == [RED, (0, 0, 0, 0)]
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["ETag"] is None
    assert colours(restored)[:2] == [RED, GREEN]
    assert restored.headers["Cache-Control"] == "no-cache"
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "is left out of composed pictures" in record.getMessage()


def test_an_image_that_the_store_has_and_pillow_cannot_read_is_left_out(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.harvest(FIRST, {A: picture()[:-30]})
    with serving(world) as client:
        assert composed(client, TOP, FIRST).status == 200
    assert len(caplog.records) == 1


def test_an_image_of_a_monstrous_size_is_left_out(world: World, caplog: pytest.LogCaptureFixture) -> None:
    body = io.BytesIO()
    Pillow.new("1", (5000, 5000)).save(body, "PNG")
    world.harvest(FIRST, {A: body.getvalue()})
    with serving(world) as client:
        assert composed(client, TOP, FIRST).status == 200
    assert "the image has 5,000 x 5,000 pixels" in caplog.records[0].getMessage()


def test_tiles_of_a_monstrous_size_are_not_composed(world: World) -> None:
    monstrous = Layer(DAY_LAYER, Pyramid(10), "png", tile_size=(384, 16_000))
    world.harvest(FIRST, {A: picture()}, described=monstrous)
    with serving(world) as client:
        reply = composed(client, TOP, FIRST)
    assert (reply.status, reply.error) == (404, "tiles of 384 x 16000 pixels are not composed")


@pytest.mark.parametrize("tile", ["-1_-2_-2", "-1_6_2", "-9_-512_512"])
def test_where_nothing_was_is_no_picture(world: World, tile: str) -> None:
    world.harvest(FIRST, {A: picture()})
    with serving(world) as client:
        reply = composed(client, tile, FIRST)
    assert (reply.status, reply.error) == (404, f"there was nothing at {tile} by 2021-02-13")


def test_before_anything_was_is_no_picture(world: World) -> None:
    world.harvest(SECOND, {A: picture()})
    with serving(world) as client:
        assert composed(client, TOP, FIRST).status == 404


@pytest.mark.parametrize("tile", ["0_1_1", "-3_8_8"])
def test_a_level_that_the_layer_has_is_not_composed(world: World, tile: str) -> None:
    world.harvest(FIRST, {A: picture(), Tile(-3, 8, 8): picture()})
    with serving(world) as client:
        reply = composed(client, tile, FIRST)
    assert reply.status == 404
    assert "are not composed: a view tells their images" in reply.error


def test_below_the_deepest_level_is_no_picture(world: World) -> None:
    world.harvest(FIRST, {Tile(-3, 8, 8): picture()})
    with serving(world) as client:
        assert composed(client, "-1_2_2", FIRST).status == 404


@pytest.mark.parametrize(
    "name",
    [
        *("2021-02-13", "2021-02-13.jpg", "2021-02-13.PNG", "2021-02-30.png", ".png", "today.png", ".."),
        *("2021-02-13.png.png", "2021-02-13.png%00", "%2e%2e%2f2021-02-13.png", "2021-02-13.png/"),
    ],
)
def test_what_is_no_picture_s_name_is_not_there(world: World, name: str) -> None:
    world.harvest(FIRST, {A: picture()})
    with serving(world) as client:
        assert client.get(f"{API}/composed/{TOP}/{name}", {"layer": DAY_LAYER}).status == 404


def test_another_layer_has_its_own_pictures(world: World) -> None:
    world.harvest(FIRST, {A: picture(RED)}, finished=False)
    world.harvest(FIRST, {A: picture(BLUE)}, layer="night")
    with serving(world) as client:
        assert RED in colours(composed(client, TOP, FIRST, "day"))
        assert BLUE in colours(composed(client, TOP, FIRST, "night"))


def damaged(world: World, body: bytes, damage: bytes | None) -> Any:
    """The image's file, deleted or overwritten."""
    name = Image(sha1_of(body), "png", len(body))
    file = world.store.path(name)
    file.unlink()
    if damage is not None:
        file.write_bytes(damage)
    return file
