"""Addresses of tiles: by a template, by the digits of a quadtree, and in forms of a renderer's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tileharvest.tiles.block import SIDE
from tileharvest.tiles.grid import Tile, path_of, tile_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.maps.template import Template
    from tileharvest.tiles.block import Block


@dataclass(frozen=True, slots=True)
class TemplateAddresses:
    """The addresses of a layer by their template."""

    template: Template
    depth: int
    deepest: int = 0
    """The site's number of the deepest zoom."""
    step: int = 1
    """How much the site's number of a zoom grows from one zoom to the next deeper one: 1, or -1 if its
    deepest zoom is 0."""

    @property
    def folder(self) -> str:
        return self.template.page[:-1]

    def url_of(self, tile: Tile) -> str:
        _check_zoom(tile.zoom, self.depth)
        return self.template.url(self.deepest + self.step * tile.zoom, tile.column, tile.row)

    def urls_of(self, block: Block) -> dict[int, str]:
        if "{q}" in self.template.form:
            return {bit: self.url_of(tile) for bit, tile in block.tiles()}
        _check_zoom(block.zoom, self.depth)
        z, left, top = self.deepest + self.step * block.zoom, block.column * SIDE, block.row * SIDE
        form, last = self.template.form.replace("{z}", str(z)), (1 << z) - 1
        rows = [form.replace("{y}", str(y)).replace("{up}", str(last - y)) for y in range(top, top + SIDE)]
        columns = [str(x) for x in range(left, left + SIDE)]
        urls, mask = {}, block.mask
        for bit in range(SIDE * SIDE):
            if mask >> bit & 1:
                urls[bit] = rows[bit >> 3].replace("{x}", columns[bit & 7])
        return urls

    def tile_of(self, url: str) -> Tile | None:
        place = self.template.place(url)
        if place is None:
            return None
        zoom, column, row = place
        zoom = 0 if self.template.is_flat else self.step * (zoom - self.deepest)
        # Images of coarser zooms are left over from settings that the owner has since changed.
        return Tile.at(zoom, column, row) if -self.depth < zoom <= 0 else None


@dataclass(frozen=True, slots=True)
class QuadtreeAddresses:
    """The addresses of a quadtree: a digit for each level, each in a folder of its own, such as `/0/3/1`."""

    folder: str
    """The address to which a tile's path is appended, without a slash at its end."""
    depth: int
    extension: str
    """The ending of the images as the site writes it, such as `jpeg`."""
    first_digit: int = 0
    """The digit of the upper left quarter: 0 for Overviewer, 1 for Mapcrafter."""
    query: str = ""
    """The end of every address, such as `?c=1620832981`. It changes, and is not part of a tile's identity."""

    _endings: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """By bit of a block: the end of a tile's address, from its last three digits on."""

    def __post_init__(self) -> None:
        places = (path_of(Tile.at(0, bit & 7, bit >> 3), 4, self.first_digit) for bit in range(SIDE * SIDE))
        endings = tuple(f"{path[2:]}.{self.extension}{self.query}" for path in places)
        object.__setattr__(self, "_endings", endings)

    @property
    def whole_map(self) -> str:
        """The address of the image above the first level. It is not a tile: it has no place that stays."""
        return f"{self.folder}/base.{self.extension}{self.query}"

    def url_of(self, tile: Tile) -> str:
        path = path_of(tile, self.depth, self.first_digit)
        return f"{self.folder}{path}.{self.extension}{self.query}"

    def urls_of(self, block: Block) -> dict[int, str]:
        if block.zoom < 4 - self.depth:
            # The three coarsest levels are narrower than a block.
            return {bit: self.url_of(tile) for bit, tile in block.tiles()}
        # A block is what lies below one tile three levels up, whose column and row are those of the block.
        above, mask = Tile.at(block.zoom - 3, block.column, block.row), block.mask
        start = f"{self.folder}{path_of(above, self.depth, self.first_digit)}"
        return {bit: start + ending for bit, ending in enumerate(self._endings) if mask >> bit & 1}

    def tile_of(self, url: str) -> Tile | None:
        path = _path_in(url, self.folder, self.extension)
        try:
            return None if path is None else tile_at(path, self.depth, self.first_digit)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class PathAddresses:
    """The addresses of a renderer that writes a tile's path in a form of its own."""

    folder: str
    """The address to which a tile's path is appended, without a slash at its end."""
    depth: int
    extension: str
    """The ending of the images as the site writes it, such as `jpeg`."""
    write: Callable[[int, int, int], str]
    """Returns the path of zoom, column and row, without the ending."""
    read: Callable[[str], Tile | None]
    """Returns the tile of a path. Returns None, or raises ValueError, for any other text."""

    def url_of(self, tile: Tile) -> str:
        _check_zoom(tile.zoom, self.depth)
        return f"{self.folder}{self.write(tile.zoom, tile.column, tile.row)}.{self.extension}"

    def urls_of(self, block: Block) -> dict[int, str]:
        _check_zoom(block.zoom, self.depth)
        zoom, left, top, mask = block.zoom, block.column * SIDE, block.row * SIDE, block.mask
        folder, write, ending = self.folder, self.write, f".{self.extension}"
        urls = {}
        for bit in range(SIDE * SIDE):
            if mask >> bit & 1:
                urls[bit] = f"{folder}{write(zoom, left + (bit & 7), top + (bit >> 3))}{ending}"
        return urls

    def tile_of(self, url: str) -> Tile | None:
        path = _path_in(url, self.folder, self.extension)
        try:
            tile = None if path is None else self.read(path)
        except ValueError:
            return None
        if tile is None or tile.zoom <= -self.depth:
            return None
        # A number can be written in several ways, and a renderer writes one of them.
        return tile if self.write(tile.zoom, tile.column, tile.row) == path else None


def _check_zoom(zoom: int, depth: int) -> None:
    if zoom <= -depth:
        raise ValueError(f"zoom {zoom} is coarser than a layer of {depth} levels has any")


def _path_in(url: str, folder: str, extension: str) -> str | None:
    """Returns what stands between the folder and the ending of an address, whatever its query, and whichever
    of its characters are percent-encoded."""
    # The query of a script names the tile. Whatever follows it only keeps caches away.
    address = unquote(url.partition("&" if "?" in folder else "?")[0])
    folder, ending = unquote(folder), f".{extension}"
    if not (address.startswith(folder) and address.endswith(ending)):
        return None
    return address[len(folder) : -len(ending)]
