"""Pictures of levels that the history lacks, as a client gets them."""

from __future__ import annotations

import io
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image as Pillow

from tests.viewer.asking import of_area, serving
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


def test_four_tiles_make_one_in_which_what_is_missing_or_gone_is_clear(world: World) -> None:
    upper_left, upper_right, _, lower_right = TOP.children()
    world.harvest(FIRST, {upper_left: picture(RED), upper_right: picture(GREEN)})
    world.harvest(SECOND, {upper_right: None})
    world.harvest(THIRD, {lower_right: picture(BLUE)})
    with serving(world) as client:
        clear = (0, 0, 0, 0)
        assert colours(composed(client, TOP, FIRST)) == [RED, GREEN, clear, clear]
        assert colours(composed(client, TOP, SECOND)) == [RED, clear, clear, clear]
        assert colours(composed(client, TOP, THIRD)) == [RED, clear, clear, BLUE]


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


@pytest.mark.parametrize("tile", ["-1_-2_-2", "-1_6_2", "-9_-512_512"])
def test_where_nothing_was_is_no_picture(world: World, tile: str) -> None:
    world.harvest(FIRST, {A: picture()})
    with serving(world) as client:
        reply = composed(client, tile, FIRST)
    assert (reply.status, reply.error) == (404, f"there was nothing at {tile} by 2021-02-13")


def damaged(world: World, body: bytes, damage: bytes | None) -> Any:
    """The image's file, deleted or overwritten."""
    name = Image(sha1_of(body), "png", len(body))
    file = world.store.path(name)
    file.unlink()
    if damage is not None:
        file.write_bytes(damage)
    return file
