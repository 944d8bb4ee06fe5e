"""Links that unfold: what other sites are told of a place on a day, and who may frame it."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from parsel import Selector
from PIL import Image

from tests.viewer.asking import Client, serving
from tests.viewer.building import BLUE, FIRST, GREEN, IN_BLOCKS, MAP, SECOND, THIRD, World, picture, square

FORUM: Final = "https://forum.example.net"
ONE: Final = f"/s/{MAP}/{FIRST}/15,15.5,-1"
TWO: Final = f"/s/{MAP}/{FIRST}..{SECOND}/15,15.5,-1"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Green land; on the second day the tile of the blocks 0 to 15 turns blue."""
    world = World(tmp_path_factory.mktemp("world"))
    world.describe()
    land = square(0, 16, left=-8, bottom=-8)
    world.harvest(FIRST, dict.fromkeys(land, picture(GREEN, 64)), described=IN_BLOCKS)
    blue = next(tile for tile in land if (tile.x, tile.y) == (1, -1))
    world.harvest(SECOND, {blue: picture(BLUE, 64)}, described=IN_BLOCKS)
    world.harvest(THIRD, {}, described=IN_BLOCKS)
    return world


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[Client]:
    with serving(world) as running:
        yield running


@pytest.fixture(scope="module")
def framed(world: World) -> Iterator[Client]:
    with serving(world, ancestors=[FORUM]) as running:
        yield running


def head(client: Client, path: str) -> dict[str, str]:
    """What a page says about itself, read by lxml."""
    reply = client.get(path)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    document = Selector(reply.body.decode())
    metas = [one.attrib for one in document.css("meta[content]")]
    said = {one.get("property") or one.get("name") or one["http-equiv"]: one["content"] for one in metas}
    return {**said, "a": document.css("a::attr(href)").get("")}


def image(client: Client, address: str) -> Image.Image:
    parts = urlsplit(address)
    reply = client.get(f"{parts.path}?{parts.query}")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "image/jpeg")
    return Image.open(io.BytesIO(reply.body)).convert("RGB")


def colour(image: Image.Image, x: int, y: int) -> str:
    pixel = image.getpixel((x, y))
    assert isinstance(pixel, tuple)
    return ("red", "green", "blue")[max(range(3), key=lambda band: pixel[band])]


def test_a_place_on_a_day_has_a_title_a_description_and_a_picture(client: Client) -> None:
    said = head(client, ONE)
    assert said["og:title"] == f"{MAP} on {FIRST}"
    assert said["og:description"] == said["description"] == "Seen at X 15, Z 16, layer day."
    assert said["og:url"].endswith(f"{ONE}?layer=day")
    # Social networks add parameters to the links that people post.
    assert head(client, f"{ONE}?fbclid=abc&utm_source=x") == said
    shown = image(client, said["og:image"])
    assert shown.size == (int(said["og:image:width"]), int(said["og:image:height"])) == (1200, 630)
    assert {colour(shown, x, y) for x in (330, 599, 601, 810) for y in (200, 314, 316, 400)} == {"green"}


def test_a_place_on_two_days_shows_before_and_after(client: Client) -> None:
    said = head(client, TWO)
    assert said["og:title"] == f"{MAP}, {FIRST} and {SECOND}"
    page = f"#map={MAP}&layer=day&day={SECOND}&x=15&z=15.5&zoom=-1&mode=swipe&with={FIRST}"
    assert (said["refresh"], said["a"]) == (f"0; url=../../../{page}", f"../../../{page}")
    assert head(client, f"{TWO}?embed=1")["refresh"] == f"0; url=../../../?embed=1{page}"
    shown = image(client, said["og:image"])
    assert shown.size == (1200, 630)
    # The middle of each half is the corner of the blue tile, which has 32 pixels to the left of it and above.
    left, right, top = 298, 902, 32 + 299
    assert colour(shown, left - 10, top - 10) == "green"
    assert colour(shown, right - 10, top - 10) == "blue"
    assert colour(shown, right + 10, top - 10) == colour(shown, right - 10, top + 10) == "green"


def test_a_place_is_named_in_chinese_too(client: Client) -> None:
    said = head(client, f"{TWO}?language=zh")
    assert said["og:title"] == f"{FIRST} 与 {SECOND} 的 {MAP}"
    assert said["description"] == "位置：X 15，Z 16，图层：day。"
    assert "language=zh" in said["og:image"]


def test_a_maps_own_viewer_is_the_address_that_is_told(tmp_path: Path) -> None:
    proxied = World(tmp_path)
    viewer = "https://maps.example.org/v"
    proxied.maps_file.write_text(f'[{MAP}]\nurl = "https://map.example.net/"\nviewer = "{viewer}"\n')
    proxied.harvest(FIRST, {}, described=IN_BLOCKS)
    with serving(proxied) as client:
        said = head(client, f"/s/{MAP}/{FIRST}/1,2,0")
    assert said["og:image"] == f"{viewer}/s/{MAP}/{FIRST}/1,2,0.jpg?layer=day"


def policy(client: Client, path: str) -> tuple[str, str | None]:
    headers = client.get(path).headers
    return headers["Content-Security-Policy"].partition("frame-ancestors ")[2], headers["X-Frame-Options"]


def test_a_named_site_frames_what_is_made_for_frames_and_nothing_else(client: Client, framed: Client) -> None:
    for path in ("/", "/?embed=1", ONE, f"{ONE}?embed=1", f"{ONE}.jpg"):
        assert policy(client, path) == ("'none'", "DENY")
        assert client.get(path).headers["Cross-Origin-Resource-Policy"] == "same-origin"
    for path in ("/?embed=1", f"{ONE}?embed=1"):
        assert policy(framed, path) == (f"'self' {FORUM}", None)
    for path in ("/", ONE, "/page/main.js", "/api/v1/maps", "/healthz"):
        assert policy(framed, path) == ("'none'", "DENY")
    assert framed.get(f"{ONE}.jpg").headers["Cross-Origin-Resource-Policy"] == "cross-origin"
