"""The port of renderers: what each of the programs that draw maps must say about its sites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tileharvest.renderers.site import as_written, fetch_config, not_found, site_of
from tileharvest.walk.change_index import ChangeIndex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Fetched, Site
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.layers import Layer
    from tileharvest.tiles.verdict import Answer


class Renderer(Protocol):
    """A program that draws maps. It has no state: one object serves all maps and threads.

    Most of what a renderer says is in the values of the layers that its probe returns:

    - the zooms, the parent and the children of a tile, where a walk starts, and which tiles a layer can have
      or has: `Layer.pyramid`;
    - the address of a tile, and the tile of an address: `Layer.addresses`. Each tile of the pyramid has one
      address and each address one tile, and a tile keeps its name when the map grows;
    - where a block lies on the grid: `Layer.projection`.

    What a renderer promises: a harvest may rest on a probe for as long as it runs, and two probes of a site
    that has not changed say the same. A probe asks for nothing but a few small files, so that looking at a
    site costs its owner nothing. It asks for no tile, unless the site has no configuration, or one that does
    not tell the depth.

    `tests/renderers/test_port.py` holds every renderer to this.
    """

    @property
    def name(self) -> str:
        """How maps.toml, the history and `scrapy crawl` call it, such as `overviewer`. It never changes."""
        ...

    @property
    def title(self) -> str:
        """What people call it."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """The files that a probe reads, below the map's page; the name alone where the site names the folder.

        The first one shows where in a tree of files there is a map. It is what `layers` is given.
        """
        return ()

    @property
    def sign(self) -> str:
        """What its sites have and others do not, for a person who looks for the right address."""
        return self.files[0]

    @property
    def doubt(self) -> str | None:
        """Why an unchanged tile proves nothing of those below it, such as `it dates no parent anew`.

        None where the renderer gives every parent the time of its newest child. Then the times that the
        host tells decide whether a walk may be pruned.
        """
        return None

    def recognises(self, page: str) -> bool:
        """Returns whether the text of a map's HTML page shows that this renderer has written it.

        No two renderers may recognise the same page.
        """
        ...

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Returns the layers that the map keeps, as the site says.

        Raises UnrecognisedError where nothing of this renderer is at the address. Another one may be
        tried then. Raises SiteError when the site cannot be read, is damaged, or has no tiles; and
        ConfigurationError when it lacks a layer that is asked for.

        A renderer whose first file says what there is need not write this, but `layers` alone.
        """
        url = description.page + self.files[0]
        found = await fetch_config(fetch, url)
        if found is None:
            raise not_found(f"there is no {url}")
        with as_written(url, self.title):
            layers = await self.layers(found, description, fetch)
            return site_of(self.name, description, layers, url)

    async def layers(self, found: Fetched, description: MapDescription, fetch: Fetch) -> Iterable[Layer]:
        """Returns all layers that the first file names, or at least those that the map keeps.

        Of an error of `msgspec`, a ValueError or a LookupError `probe` makes a SiteError. A `ReadLayers` lets
        the other layers be kept where one is wrong.
        """
        return ()

    def unconfigured(self, page: str, said: Layer) -> Layer | None:
        """Returns a layer that lies below this page with the addresses of its tiles, where nothing is known
        of the site's configuration but what the site once `said` of the layer.

        None where the configuration alone tells where the tiles lie.
        """
        return None

    async def change_index(self, layer: Layer, fetch: Fetch) -> ChangeIndex | None:
        """Returns what the site says of the changes of a layer, or None where it says nothing.

        A harvest asks it before any tile, and asks for no tile that is unchanged by it but for a few that
        show whether it is right. So what is returned must be another one after whatever render has changed a
        tile, and must not be written before the tiles are. It may cost a few small files, whatever the size
        of the map. Raises SiteError where it cannot be read: then the harvest does without it.
        """
        return None if layer.stamp is None else ChangeIndex(layer.stamp)

    def understood(self, answer: Answer, tile: Tile) -> Answer:
        """Returns a server's answer about a tile, as a plain file server would have given it.

        Some renderers bring their own server. What it answers for a missing tile becomes 404, and an ETag
        that does not tell one state of the tile from another is left out. It is called for each answer to
        HEAD and GET. A redirect is one, too: what is returned as anything else is not followed.
        """
        return answer
