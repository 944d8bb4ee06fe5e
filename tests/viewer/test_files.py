"""Images by their names, and the files of the page: all of them, and nothing else."""

from __future__ import annotations

import gzip
import io
import re
import shutil
from hashlib import sha1
from typing import TYPE_CHECKING

import pytest
from PIL import Image as Pillow

from tests.viewer.asking import serving
from tests.viewer.building import BLUE, FIRST, RED, SIZE, World, as_png, picture
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.versions import Image
from tileharvest.viewer.page_files import FOLDER, page_files

if TYPE_CHECKING:
    from pathlib import Path

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
    [f'"{NAME}"', f'W/"{NAME}"', f'"other", W/"{NAME}" , "another"', "*"],
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
        *("", NAME, f"{NAME}.gif", f"{NAME}.PNG", f"{NAME}0.png", f"{NAME.upper()}.png", f"{NAME}.png%00"),
        *(f"{NAME[:2]}/{NAME}.png", f"..%2f{NAME}.png", "..%2Fhistory.sqlite", "..%5chistory.sqlite"),
        *("%2Fetc%2Fpasswd", "//etc/passwd", "%c0%ae%c0%ae", "a" * 6000, "..%252f..%252fhistory.sqlite"),
    ],
)
def test_what_is_no_image_s_name_leads_nowhere(client: Client, name: str) -> None:
    reply = client.get(f"/tiles/{name}")
    assert reply.status == 404
    assert reply.headers["Content-Type"] == "application/json"
    assert len(reply.error) < 250


KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
MOST_BYTES = 110_000


def names_of(pattern: str) -> list[str]:
    files = [file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob(pattern) if file.is_file()]
    return [name for name in files if not name.startswith("published/")]


def test_every_file_but_our_modules_is_served_as_it_is_and_compressed_where_that_helps(
    client: Client,
) -> None:
    for name in set(names_of("*")) - set(names_of("*.js")) | {"leaflet/leaflet.js"}:
        reply, zipped = client.get(f"/page/{name}"), client.get(f"/page/{name}", accept_encoding="gzip")
        assert reply.body == (FOLDER / name).read_bytes(), name
        suffix = (FOLDER / name).suffix
        assert reply.headers["Content-Type"] == KINDS.get(suffix, reply.headers["Content-Type"])
        assert reply.headers["Cache-Control"] == "no-cache"
        is_zipped = zipped.headers["Content-Encoding"] == "gzip"
        assert (gzip.decompress(zipped.body) if is_zipped else zipped.body) == reply.body
        assert is_zipped == (suffix != ".png" and len(zipped.body) < len(reply.body))


def test_a_module_comes_with_the_main_script_or_alone(client: Client) -> None:
    main = client.get("/page/main.js").body.decode()
    for name in set(names_of("*.js")) - {"leaflet/leaflet.js"}:
        registered = f'modules["{name}"] = '
        alone = client.get(f"/page/{name}")
        assert (registered in main) is (name == "main.js" or alone.status == 404), name
        assert "/**" not in alone.body.decode()
        assert alone.status == 404 or registered in alone.body.decode()


def test_the_whole_page_is_small(client: Client) -> None:
    """What a browser loads before it shows the first picture."""
    names = ("index.html", "style.css", "icon.svg", "leaflet/leaflet.css", "leaflet/leaflet.js", "main.js")
    sent = [
        len(client.get(f"/page/{name}", accept_encoding="gzip").body)
        for name in (*names, "renderers/overviewer.js")
    ]
    assert sum(sent) <= MOST_BYTES


def test_both_languages_have_the_same_texts_with_the_same_values() -> None:
    texts = [
        dict(
            re.findall(r'^  (\w+): "(.*)",$', (FOLDER / f"texts/{code}.js").read_text("utf-8"), re.MULTILINE)
        )
        for code in ("en", "zh")
    ]
    values = [{key: set(re.findall(r"\{(\w+)", text)) for key, text in each.items()} for each in texts]
    assert len(values[0]) > 200
    assert values[0].keys() == values[1].keys()
    # A word in English may depend on a number that Chinese says once.
    assert [key for key in values[0] if not values[1][key] <= values[0][key]] == []
    used = "".join(file.read_text("utf-8") for file in FOLDER.rglob("*.js") if file.parent.name != "texts")
    used += (FOLDER / "index.html").read_text("utf-8")
    assert [key for key in values[0] if not re.search(rf"\b{key}\b", used)] == []


def test_the_root_is_the_page_whatever_query_it_has(client: Client) -> None:
    for address in ("/", "/?anything=1"):
        reply = client.get(address)
        assert reply.body == (FOLDER / "index.html").read_bytes()
        assert reply.headers["Content-Type"] == KINDS[".html"]


def test_files_are_read_when_the_server_starts(tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text("first")
    files = page_files(tmp_path)
    (tmp_path / "style.css").write_text("second")
    (tmp_path / "new.css").write_text("new")
    assert {name: file.body for name, file in files.items()} == {"style.css": b"first"}


@pytest.mark.parametrize(
    "name", [".htaccess", ".git/config.css", "texts/.en.js.swp", "serving.py", "main.js.map", "a.exe"]
)
def test_hidden_files_and_those_of_other_kinds_are_left_out(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    assert page_files(tmp_path) == {}
    assert page_files(tmp_path / "nowhere") == {}
