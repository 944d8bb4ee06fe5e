"""The files of the page: all of them, and nothing else."""

from __future__ import annotations

import gzip
import posixpath
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


def files_of_the_page() -> list[Path]:
    return [file for file in FOLDER.rglob("*") if file.is_file()]


def is_own_module(file: Path) -> bool:
    return file.suffix == ".js" and file.parent.name != "leaflet"


def test_every_file_of_the_page_but_our_modules_is_served_as_it_is(client: Client) -> None:
    for file in files_of_the_page():
        reply = client.get(f"/page/{file.relative_to(FOLDER).as_posix()}")
        assert reply.status == 200, file
        assert is_own_module(file) or reply.body == file.read_bytes(), file
        assert reply.headers["Content-Type"] == KINDS.get(file.suffix, reply.headers["Content-Type"])
        assert reply.headers["Cache-Control"] == "no-cache"


def test_our_modules_are_served_without_comments_and_with_all_else_in_its_line(client: Client) -> None:
    for file in filter(is_own_module, files_of_the_page()):
        served = client.get(f"/page/{file.relative_to(FOLDER).as_posix()}").body.decode()
        in_comment = False
        for line, left in zip(file.read_text("utf-8").split("\n"), served.split("\n"), strict=True):
            # A type stands before what it is of, in the same line.
            words = re.sub(r"/\*\* .*?\*/ ?", "", line).strip()
            in_comment = in_comment or words.startswith(("/*", "//"))
            assert left.strip() == ("" if in_comment else words), f"{file.name}: {line}"
            in_comment = in_comment and not words.startswith("//") and not words.endswith("*/")


def test_every_file_of_the_page_comes_compressed_where_that_helps(client: Client) -> None:
    for file in files_of_the_page():
        address = f"/page/{file.relative_to(FOLDER).as_posix()}"
        whole, reply = client.get(address).body, client.get(address, accept_encoding="gzip")
        zipped = reply.headers["Content-Encoding"] == "gzip"
        assert (gzip.decompress(reply.body) if zipped else reply.body) == whole
        assert len(reply.body) <= len(whole)
        assert zipped == (file.suffix != ".png" and len(reply.body) < len(whole))


def test_the_root_is_the_page(client: Client) -> None:
    reply = client.get("/")
    assert reply.body == (FOLDER / "index.html").read_bytes()
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"


def test_the_page_tells_the_browser_of_all_its_modules_at_once() -> None:
    """A module that is found only in another one comes a round trip later."""
    page = (FOLDER / "index.html").read_text()
    told = re.findall(r'<link rel="modulepreload" href="page/([^"]+)">', page)
    assert told == sorted(modules_below("main.js", set()) - {"main.js"})


def modules_below(name: str, found: set[str]) -> set[str]:
    """Returns the module and all that it imports, by their paths."""
    if name not in found:
        found.add(name)
        for imported in re.findall(r'^import (?:[^;]* from )?"(\.[^"]+)";', read(name), re.MULTILINE):
            modules_below(posixpath.normpath(posixpath.join(posixpath.dirname(name), imported)), found)
    return found


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def test_the_whole_page_is_small(client: Client) -> None:
    """What a browser loads before it shows the first picture."""
    modules = modules_below("main.js", set()) | modules_below("renderers/overviewer.js", set())
    names = ["index.html", "style.css", "icon.svg", "leaflet/leaflet.css", *modules]
    sent = [len(client.get(f"/page/{name}", accept_encoding="gzip").body) for name in names]
    assert sum(sent) <= MOST_BYTES


def test_a_query_belongs_to_the_page(client: Client) -> None:
    assert client.get("/?anything=1").status == 200


def test_files_are_read_when_the_server_starts(tmp_path: Path) -> None:
    (tmp_path / "main.js").write_text("first")
    files = page_files(tmp_path)
    (tmp_path / "main.js").write_text("second")
    (tmp_path / "new.js").write_text("new")
    assert {name: file.body for name, file in files.items()} == {"main.js": b"first"}


@pytest.mark.parametrize(
    "name", [".htaccess", ".git/config.js", "texts/.en.js.swp", "serving.py", "main.js.map", "a.exe"]
)
def test_hidden_files_and_those_of_other_kinds_are_left_out(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    assert page_files(tmp_path) == {}


def test_a_page_that_is_missing_has_no_files(tmp_path: Path) -> None:
    assert page_files(tmp_path / "nowhere") == {}
