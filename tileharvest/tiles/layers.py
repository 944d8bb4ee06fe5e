"""A layer of a map: what its site says about it, from the probe to the history. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

from tileharvest.tiles.versions import EXTENSIONS

if TYPE_CHECKING:
    from tileharvest.tiles.block import Block
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.ground import Projection
    from tileharvest.tiles.pyramid import Pyramid

Size: TypeAlias = tuple[int, int]
"""Width and height in pixels."""

MOST_NAME: Final = 4096
"""The most characters of a layer's name, and of any other text that a site says of the layer."""
MOST_SIDE: Final = 16_384
"""The most pixels along a tile's edge."""
WRITABLE: Final = r"\A[^\x00\ud800-\udfff]*\Z"
"""A regular expression for texts that files and databases can hold. JSON can write half a character (a lone
surrogate), which has no bytes in UTF-8, and PostgreSQL takes no NUL."""
_WRITABLE: Final = re.compile(WRITABLE)

TILE_SIDE: Final = 384
"""Pixels along a tile's edge if the site does not say. Overviewer has never written another number."""


class Addresses(Protocol):
    """The addresses of a layer's tiles on its site. Each renderer has its own class. Two objects are equal if
    they give the same addresses."""

    @property
    def folder(self) -> str:
        """The beginning of all addresses, without a slash at its end. It names the host, and robots.txt is
        asked whether it allows this folder."""
        ...

    def url_of(self, tile: Tile) -> str:
        """Returns the tile's address, as the site's own page asks for it. Raises ValueError for a tile that
        has none."""
        ...

    def urls_of(self, block: Block) -> dict[int, str]:
        """Returns the addresses of the tiles that the block's mask has, by bit, the lowest first. Raises
        ValueError if one of them has no address."""
        ...

    def tile_of(self, url: str) -> Tile | None:
        """Returns the tile of an address, whatever its query. Returns None for any other address."""
        ...


class _NoAddresses:
    """The addresses of a layer that was read from the history: none."""

    folder: Final = ""

    def url_of(self, tile: Tile) -> str:
        raise ValueError(f"tile {tile} has no address: its site was not asked")

    def urls_of(self, block: Block) -> dict[int, str]:
        raise ValueError(f"{block} has no addresses: its site was not asked")

    def tile_of(self, url: str) -> Tile | None:
        return None


_NO_ADDRESSES: Final = _NoAddresses()


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer as its site describes it on one day. Raises ValueError for values that no layer can have.

    The history does not keep `addresses`, `overlay`, `stamp` and `tells_size`, and of the pyramid
    it keeps only depth and factor. A layer that was read from the history has the defaults instead.
    """

    name: str
    """The name by which maps.toml and the history know the layer, such as Overviewer's `path` of the tileset.
    It stays as long as the site's owner keeps it."""
    pyramid: Pyramid
    """Which tiles the layer can have. Its depth is Overviewer's `zoomLevels`; `maxZoom`, which can be
    smaller, limits only Overviewer's own page."""
    image_extension: str
    addresses: Addresses = _NO_ADDRESSES
    overlay: bool = False
    tile_size: Size = (TILE_SIDE, TILE_SIDE)
    """The size of the picture in an image. BlueMap's images have further pixels below the picture, which do
    not count."""
    tells_size: bool = True
    """Whether the site says how large its tiles are. If not, `tile_size` is the usual one, or that of the
    first image that was found."""
    world: str | None = None
    north_direction: int = 0
    """Quarter turns of the world before it was drawn. With 0 Overviewer draws north at the upper left, with 1
    at the upper right, with 2 at the lower right, with 3 at the lower left."""
    projection: Projection | None = None
    """Where blocks lie on the grid. None if nothing is known of the world that is drawn."""
    spawn: tuple[int, int, int] | None = None
    """The place where players start: Minecraft's x, y (height) and z, in blocks."""
    background: str | None = None
    """A CSS colour, as the site writes it."""
    rendered: int | None = None
    """When the last render began, in seconds since 1970."""
    stamp: str | None = None
    """A text that differs between one render of the layer and the next. It differs after each render that
    has changed a tile. None if the site says nothing, or if a render is under way."""

    host: str = field(init=False, repr=False, compare=False)
    """The host of the tiles' addresses. Rates are limited for it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", urlsplit(self.addresses.folder).hostname or "")
        if not self.name:
            raise ValueError("a layer has no name")
        for text in (self.name, self.world or "", self.background or "", self.addresses.folder):
            if len(text) > MOST_NAME or _WRITABLE.fullmatch(text) is None:
                raise ValueError(f"a text of {len(text):,} characters is too long, or cannot be written")
        if self.image_extension not in EXTENSIONS:
            raise ValueError(f"layer '{self.name}' has images of the unknown kind '{self.image_extension}'")
        if min(self.tile_size) < 1 or max(self.tile_size) > MOST_SIDE:
            width, height = self.tile_size
            raise ValueError(f"layer '{self.name}' has tiles of {width} x {height} pixels")
        numbers = (*(self.spawn or ()), self.rendered or 0)
        if max(map(abs, numbers)) >= 2**63:
            raise ValueError(f"layer '{self.name}' has a number beyond 64 bits")
        if self.north_direction not in range(4):
            raise ValueError(f"layer '{self.name}' has north direction {self.north_direction}, not 0 to 3")

    @property
    def depth(self) -> int:
        return self.pyramid.depth
