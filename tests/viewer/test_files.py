"""Images by their names, and the files of the page: all of them, and nothing else."""

import gzip
import io
import re
from hashlib import sha1
from pathlib import Path

import pytest
from PIL import Image as Pillow

from tests.viewer.asking import Client, serving
from tests.viewer.building import BLUE, FIRST, RED, SIZE, World, as_png, name_of, picture
from tileharvest.tiles.grid import Tile
from tileharvest.viewer.page_files import FOLDER

BODY = picture()
NAME = sha1(BODY).hexdigest()
PATH = f"/tiles/{NAME}.png"
FOR_EVER = "public, max-age=31536000, immutable"
MOST_BYTES = 110_000


def test_an_image_is_answered_as_it_was_stored_and_kept_for_ever(client: Client) -> None:
    reply = client.get(PATH)
    assert (reply.status, reply.body) == (200, BODY)
    assert (reply.headers["Content-Type"], reply.headers["Cache-Control"]) == ("image/png", FOR_EVER)


def test_the_picture_of_an_image_is_the_same_unless_the_image_holds_more(world: World) -> None:
    """BlueMap's images have light and heights below."""
    both = Pillow.new("RGBA", (SIZE + 1, 2 * (SIZE + 1)), BLUE)
    both.paste(RED, (0, 0, SIZE, SIZE))
    body = as_png(both)
    world.harvest(FIRST, {Tile(0, 1, 1): BODY, Tile(0, 3, 1): body})
    with serving(world) as client:
        assert client.get(f"/pictures/{NAME}.png").body == BODY
        assert client.get(f"/tiles/{name_of(body)}").body == body
        reply = client.get(f"/pictures/{name_of(body)}")
    assert (reply.headers["Content-Type"], reply.headers["Cache-Control"]) == ("image/png", FOR_EVER)
    seen = Pillow.open(io.BytesIO(reply.body)).convert("RGBA")
    assert (seen.size, seen.getcolors()) == ((SIZE, SIZE), [(SIZE * SIZE, RED)])


@pytest.mark.parametrize("damage", [b"", picture(BLUE)])
def test_a_damaged_image_is_an_error_and_a_missing_one_is_not_there(
    world: World, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    world.harvest(FIRST, {Tile(0, 1, 1): BODY})
    file = Path(world.store.path(f"{NAME}.png"))
    file.write_bytes(damage)
    with serving(world) as client:
        broken, missing = client.get(PATH), client.get(f"/tiles/{'0' * 40}.png")
    assert (broken.status, broken.error) == (500, f"image {NAME}.png is damaged or cannot be read")
    assert (missing.status, missing.error) == (404, f"the store has no image {'0' * 40}.png")
    assert broken.headers["Cache-Control"] == missing.headers["Cache-Control"] == "no-store"
    (record,) = caplog.records
    assert f"{file}" in record.getMessage()


def names_of(pattern: str) -> list[str]:
    files = [file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob(pattern) if file.is_file()]
    return [name for name in files if not name.startswith("published/")]


def test_every_file_but_our_modules_is_served_as_it_is_and_compressed_where_that_helps(
    client: Client,
) -> None:
    for name in {*names_of("*.html"), *names_of("*.css"), *names_of("*.png"), "leaflet/leaflet.js"}:
        reply, zipped = client.get(f"/page/{name}"), client.get(f"/page/{name}", accept_encoding="gzip")
        assert reply.body == (FOLDER / name).read_bytes(), name
        is_zipped = zipped.headers["Content-Encoding"] == "gzip"
        assert (gzip.decompress(zipped.body) if is_zipped else zipped.body) == reply.body
        assert is_zipped == (not name.endswith(".png") and len(zipped.body) < len(reply.body))
    for address in ("/", "/?anything=1"):
        reply = client.get(address)
        assert reply.body == (FOLDER / "index.html").read_bytes()
        assert reply.headers["Content-Type"] == "text/html; charset=utf-8"


def test_a_module_comes_with_the_main_script_or_alone(client: Client) -> None:
    main = client.get("/page/main.js").body.decode()
    for name in set(names_of("*.js")) - {"leaflet/leaflet.js"}:
        registered = f'modules["{name}"] = '
        alone = client.get(f"/page/{name}")
        assert (registered in main) is (name == "main.js" or alone.status == 404), name
        assert "/**" not in alone.body.decode()
        assert alone.status == 404 or registered in alone.body.decode()


def test_what_a_browser_loads_before_the_first_picture_is_small(client: Client) -> None:
    names = ("index.html", "style.css", "icon.svg", "leaflet/leaflet.css", "leaflet/leaflet.js", "main.js")
    sent = [
        len(client.get(f"/page/{name}", accept_encoding="gzip").body)
        for name in (*names, "renderers/overviewer.js")
    ]
    assert sum(sent) <= MOST_BYTES


def test_both_languages_have_the_same_texts_with_the_same_values() -> None:
    files = [(FOLDER / f"texts/{code}.js").read_text("utf-8") for code in ("en", "zh")]
    texts = [dict(re.findall(r'^  (\w+): "(.*)",$', file, re.MULTILINE)) for file in files]
    values = [{key: set(re.findall(r"\{(\w+)", text)) for key, text in each.items()} for each in texts]
    assert len(values[0]) > 200
    assert values[0].keys() == values[1].keys()
    # A word in English may depend on a number that Chinese says once.
    assert [key for key in values[0] if not values[1][key] <= values[0][key]] == []
    used = "".join(file.read_text("utf-8") for file in FOLDER.rglob("*.js") if file.parent.name != "texts")
    used += (FOLDER / "index.html").read_text("utf-8")
    assert [key for key in values[0] if not re.search(rf"\b{key}\b", used)] == []
