"""Published sites of the shared maps, asked as a probe asks: files of a folder, without a server."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.servers.plain_tiles import plain_tiles, tile_json
from tests.servers.published import published
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.registry import RENDERERS
from tileharvest.renderers.site import Fetched, Site

PAGE: Final = "https://map.example.net/world/"

VERSIONS: Final = {
    "minedmap": [("duckmap", 6)],
    "overviewer": [("antworld", 4), ("alexjj", 2)],
    "mapcrafter": [("jgore43", 4), ("richhall", 1)],
    "unmined": [("helmetgreen", 4)],
    "xyz": [("antworld as plain tiles", 4)],
    "dynmap": [("mrozbarry", 4)],
    "squaremap": [("duckmap", 6)],
    "pl3xmap": [("sbatserver", 6)],
    "bluemap": [("labyrinthmc", 5)],
}
"""The published maps of each renderer, each with its last version."""


@dataclass
class WrittenSite:
    """Files, or JSON, as the site at `PAGE`: by their paths below it, or by their whole addresses. It notes
    what was asked."""

    files: Mapping[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def __call__(self, method: str, url: str) -> Fetched:
        self.asked.append(f"{method} {url}")
        body = self.content(url.removeprefix(PAGE).partition("?")[0])
        if body is None:
            return Fetched(404, b"", url)
        return Fetched(200, body.encode() if isinstance(body, str) else body, url)

    def content(self, path: str) -> bytes | str | None:
        said = self.files.get(path)
        return said if said is None or isinstance(said, str | bytes) else json.dumps(said)

    def probed(self, renderer: str, **keys: Any) -> Site:
        description = MapDescription(**{"name": "m", "url": PAGE, **keys})
        return asyncio.run(RENDERERS[renderer].probe(description, self))  # type: ignore[arg-type]


class PublishedSite(WrittenSite):
    """A folder as the site at `PAGE`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def content(self, path: str) -> bytes | None:
        file = self.folder / (path or "index.html")
        return file.read_bytes() if file.is_file() else None

    def images(self) -> set[str]:
        """The addresses of all images below the page, whatever they show."""
        endings = {".png", ".jpg", ".jpeg", ".webp"}
        files = (file for file in self.folder.rglob("*") if file.suffix in endings)
        return {f"{PAGE}{file.relative_to(self.folder).as_posix()}" for file in files}


def of_map(shared_maps: Path, name: str, version: int, folder: Path) -> PublishedSite:
    if name not in (one for one, _ in VERSIONS["xyz"]):
        return PublishedSite(published(shared_maps, name, version, folder))
    site = PublishedSite(plain_tiles(shared_maps, version, folder / "site"))
    (site.folder / "index.html").write_text(tile_json(f"{PAGE}{{z}}/{{x}}/{{y}}.png"), encoding="utf-8")
    return site
