"""The shared maps, and what each published folder holds, tile by tile.

A file is a tile by the addresses that the renderer says of the folder: tests/renderers compares these with
what each renderer's own page asks for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.end_to_end.project import LayerTile
from tests.end_to_end.rendering import Rendering
from tests.renderers.sites import PAGE, PublishedSite
from tests.servers.plain_tiles import DEEPEST, WORLD, plain_path
from tileharvest.renderers.site import Site
from tileharvest.tiles.grid import Tile
from tileharvest.walk.walk import Walk


@dataclass(frozen=True, slots=True)
class PublishedMap:
    """A shared map of which some versions are harvested in turn."""

    name: str
    renderer: str
    versions: range | None = None
    """None means all."""
    entry: tuple[tuple[str, Any], ...] = (("walk", "full"),)
    """The keys of its entry in maps.toml besides the address."""
    asks_by_get: bool = False
    """Whether known tiles are asked by GET, too."""
    shared: str = ""
    """The name of the shared map, if it has another one here."""

    @property
    def keys(self) -> Mapping[str, Any]:
        return dict(self.entry)

    def rendering(self, site: Path) -> Any:
        """Returns the content of the folder."""
        return PublishedRendering(site, self) if self.renderer != "overviewer" else Rendering(site, 7)


@dataclass(frozen=True, slots=True)
class PublishedRendering:
    """A published folder, whatever is in there when it is asked."""

    folder: Path
    map: PublishedMap

    def site(self) -> Site:
        is_plain = self.map.renderer == "xyz"
        keys = {**self.map.keys, **({"url": f"{PAGE}{{z}}/{{x}}/{{y}}.png"} if is_plain else {})}
        return PublishedSite(self.folder).probed(self.map.renderer, **keys)

    @property
    def depth(self) -> int:
        return self.site().layers[0].depth

    def named(self, names: Iterable[str]) -> dict[str, LayerTile]:
        """The tiles among names of files below the folder, or of the files of Overviewer that they were."""
        layers, found = self.site().layers, {}
        for name in names:
            url = f"{PAGE}{plain_path(name) or name.lstrip('/')}"
            for layer in layers:
                if (tile := layer.addresses.tile_of(url)) is not None:
                    found[name] = LayerTile(layer.name, tile.zoom, tile.x, tile.y)
        return found

    def tiles_of_files(self, names: Iterable[str]) -> set[LayerTile]:
        return set(self.named(names).values())

    def images(self) -> dict[LayerTile, bytes]:
        """The bytes of all tiles that are there."""
        names = [file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*.*")]
        return {tile: (self.folder / name).read_bytes() for name, tile in self.named(names).items()}

    def missing_tiles(self) -> set[LayerTile]:
        """What a walk asks for in vain: where it starts, beside the coarsest tiles, and below all others."""
        there, asked = self.images().keys(), set[LayerTile]()
        for layer in self.site().layers:
            walk = Walk(layer.pyramid)
            coming = list(walk.start())
            for tile in (Tile(one.zoom, one.x, one.y) for one in there if one.layer == layer.name):
                coming += walk.below(tile)
                coming += layer.pyramid.beside(tile) if walk.goes_sideways and tile.zoom == walk.top else ()
            asked |= {LayerTile(layer.name, tile.zoom, tile.x, tile.y) for tile in coming}
        return asked - there


ANTWORLD_MAP: Final = PublishedMap("antworld", "overviewer", entry=())
MAPCRAFTERS: Final = (PublishedMap("jgore43", "mapcrafter"), PublishedMap("richhall", "mapcrafter", entry=()))
DUCKMAP: Final = PublishedMap("duckmap", "squaremap", range(1, 3))
"""What was there before it was begun anew with version 3, in which it has no tiles yet."""
DUCKMAP_ANEW: Final = PublishedMap("duckmap", "squaremap", range(4, 7))
SBATSERVER: Final = PublishedMap("sbatserver", "pl3xmap")
LABYRINTH: Final = PublishedMap(
    "labyrinthmc", "bluemap", entry=(("walk", "full"), ("change_index", False)), asks_by_get=True
)
MROZBARRY: Final = PublishedMap("mrozbarry", "dynmap", entry=(("walk", "full"), ("robots", False)))
HELMETGREEN: Final = PublishedMap("helmetgreen", "unmined")
PLAIN_ANTS: Final = PublishedMap(
    "plain-ants",
    "xyz",
    entry=(("walk", "full"), ("bounds", WORLD), ("site_zooms", (0, DEEPEST))),
    shared="antworld",
)
