"""A probed site: what its renderer found out about it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileharvest.tiles.layers import Layer


@dataclass(frozen=True, slots=True)
class Site:
    """The layers of a map's site that the map keeps."""

    renderer: str
    layers: tuple[Layer, ...]
    probed: bool = False
    """Whether the depths were found by asking for tiles, because the site has no configuration."""
