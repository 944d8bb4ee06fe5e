"""The files of the page: all of them, and nothing else."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

import pytest

from tileharvest.viewer.page_files import FOLDER, page_files

if TYPE_CHECKING:
    from pathlib import Path

    from tests.viewer.asking import Client

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
