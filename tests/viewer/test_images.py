"""Images by their names, from the store."""

from __future__ import annotations

import io
import shutil
from hashlib import sha1
from typing import TYPE_CHECKING

import pytest
from PIL import Image as Pillow

from tests.viewer.asking import serving
from tests.viewer.building import BLUE, FIRST, RED, SIZE, World, as_png, picture
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.versions import Image

if TYPE_CHECKING:
    from tests.viewer.asking import Client

BODY = picture()
NAME = sha1(BODY).hexdigest()
PATH = f"/tiles/{NAME}.png"
FOR_EVER = "public, max-age=31536000, immutable"


@pytest.fixture(scope="module")
def harvested(tmp_path_factory: pytest.TempPathFactory) -> World:
    """With one image. Read only."""
    world = World(tmp_path_factory.mktemp("harvested"))
    world.harvest(FIRST, {Tile(0, 1, 1): BODY})
    return world


@pytest.fixture
def stored(world: World, harvested: World) -> World:
    """A copy, of which a test may do what it wants with the files."""
    shutil.copytree(harvested.folder, world.folder, dirs_exist_ok=True)
    return world


@pytest.fixture
def client(stored: World, client: Client) -> Client:
    """Opened before or after the image was stored: it makes no difference."""
    return client


def test_an_image_is_answered_as_it_was_stored(client: Client) -> None:
    reply = client.get(PATH)
    assert (reply.status, reply.body) == (200, BODY)
    assert reply.headers["Content-Type"] == "image/png"
    assert reply.headers["Content-Length"] == str(len(BODY))


def test_its_picture_is_the_same_unless_the_image_holds_more(world: World) -> None:
    """BlueMap's images have light and heights below."""
    both = Pillow.new("RGBA", (SIZE + 1, 2 * (SIZE + 1)), BLUE)
    both.paste(RED, (0, 0, SIZE, SIZE))
    body = as_png(both)
    name = f"{sha1(body).hexdigest()}.png"
    world.harvest(FIRST, {Tile(0, 1, 1): BODY, Tile(0, 3, 1): body})
    with serving(world) as client:
        assert client.get(f"/pictures/{NAME}.png").body == BODY
        assert client.get(f"/tiles/{name}").body == body
        reply = client.get(f"/pictures/{name}")
        again = client.get(f"/pictures/{name}", if_none_match=reply.headers["ETag"])
        assert client.get(f"/pictures/{'0' * 40}.png").status == 404
    assert (reply.status, reply.headers["Content-Type"], again.status) == (200, "image/png", 304)
    assert reply.headers["Cache-Control"] == FOR_EVER
    seen = Pillow.open(io.BytesIO(reply.body))
    assert (seen.size, seen.convert("RGBA").getcolors()) == ((SIZE, SIZE), [(SIZE * SIZE, RED)])


@pytest.mark.parametrize(
    "known",
    [f'"{NAME}"', f'W/"{NAME}"', f'"other", W/"{NAME}" , "another"', f'"other","{NAME}"', "*", " * "],
)
def test_who_has_it_does_not_get_it_again(client: Client, known: str) -> None:
    reply = client.get(PATH, if_none_match=known)
    assert (reply.status, reply.body) == (304, b"")
    assert reply.headers["ETag"] == f'"{NAME}"'
    assert reply.headers["Cache-Control"] == FOR_EVER
    assert reply.headers["Content-Length"] is None


def test_a_missing_image_is_not_there_and_that_is_not_kept(client: Client, stored: World) -> None:
    other = sha1(b"other").hexdigest()
    for known in ({}, {"if_none_match": "*"}):
        reply = client.get(f"/tiles/{other}.png", **known)
        assert reply.status == 404
        assert reply.error == f"the store has no image {other}.png"
        assert reply.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("damage", [b"", BODY[:-1], BODY + b"\n", BODY[:-1] + b"\0", picture(BLUE)])
def test_a_damaged_image_is_an_error_that_is_not_kept(
    client: Client, stored: World, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = stored.store.path(Image(NAME, "png", len(BODY)))
    file.write_bytes(damage)
    reply = client.get(PATH)
    assert reply.status == 500
    assert reply.error == f"image {NAME}.png is damaged or cannot be read"
    assert reply.headers["Cache-Control"] == "no-store"
    (record,) = caplog.records
    assert str(file) in record.getMessage()
    assert "restore it from a backup" in record.getMessage()


@pytest.mark.parametrize(
    "name",
    [
        *("", ".png", NAME, f"{NAME}.", f"{NAME}.gif", f"{NAME}.PNG", f"{NAME}.png.png", f"{NAME}.png/"),
        *(f"{NAME[:-1]}.png", f"{NAME}0.png", f"{NAME.upper()}.png", f"%20{NAME}.png", f"{NAME}.png%00"),
        *(f"{NAME[:2]}/{NAME}.png", f"../tiles/{NAME}.png", f"..%2f{NAME}.png", f"%2e%2e/{NAME}.png"),
        *("../history.sqlite", "..%2Fhistory.sqlite", "....//history.sqlite", "..%5chistory.sqlite"),
        *("%2Fetc%2Fpasswd", "//etc/passwd", "/etc/passwd", "file:///etc/passwd", "~", "%c0%ae%c0%ae"),
        *(f"{'a' * 41}.png", "a" * 6000, f"{'%D9%A1' * 40}.png", "%ff%fe", "..%252f..%252fhistory.sqlite"),
    ],
)
def test_what_is_no_image_s_name_leads_nowhere(client: Client, name: str) -> None:
    reply = client.get(f"/tiles/{name}")
    assert reply.status == 404
    assert reply.headers["Content-Type"] == "application/json"
    assert len(reply.error) < 250
