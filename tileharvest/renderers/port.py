"""The port of renderers: what each renderer must say about its sites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tileharvest.renderers.site import as_written, fetch_config, not_found, site_of
from tileharvest.walk.change_index import ChangeIndex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Fetched, Site
    from tileharvest.tiles.layers import Layer
    from tileharvest.tiles.verdict import Answer


class Renderer(Protocol):
    """A program that draws maps. An object has no state: it serves all maps and threads.

    A renderer says most things by the values of the layers that its probe returns:

    - `Layer.pyramid`: the zooms, the parent and the children of a tile, where a walk starts, and which tiles
      the layer can have, or has;
    - `Layer.addresses`: the address of a tile, and the tile of an address. Each tile of the pyramid has one
      address, and each address names one tile. A tile keeps its name when the map grows;
    - `Layer.projection`: where a block lies on the grid.

    A renderer promises two things. A harvest may rely on a probe as long as the harvest runs, and two probes
    of a site that has not changed say the same. And a probe costs the site's owner next to nothing: it asks
    for a few small files, and for a tile only if these do not tell the depth.

    `tests/renderers/test_port.py` checks this for every renderer.
    """

    @property
    def name(self) -> str:
        """The name in maps.toml, in the history and for `scrapy crawl`, such as `overviewer`. It never
        changes."""
        ...

    @property
    def title(self) -> str:
        """The renderer's name as people write it."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """The files that a probe reads, as paths below the map's page. If the site names the folder of a
        file, only the file's name is given here.

        The first file shows where in a tree of files there is a map. `probe` reads it and hands it to
        `layers`.
        """
        return ()

    @property
    def sign(self) -> str:
        """A mark of this renderer's sites that other sites lack, in words for a person who looks for the
        right address."""
        return self.files[0]

    @property
    def doubt(self) -> str | None:
        """Why an unchanged tile proves nothing about the tiles below it, such as `it dates no parent anew`.

        None if the renderer gives every parent the time of its newest child. Whether a walk may then be
        pruned depends on the times that the host gives.
        """
        return None

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Returns the layers that the map keeps, as the site says.

        Raises UnrecognisedError if nothing of this renderer is at the address; then another renderer may be
        tried. Raises SiteError if the site cannot be read, is damaged, or has no tiles. Raises
        ConfigurationError if the site lacks a layer that maps.toml names.

        A renderer whose first file names the layers implements `layers` and leaves this method as it is.
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

        `found` is that file. `probe` turns an error of `msgspec`, a ValueError and a LookupError into a
        SiteError. Return a `ReadLayers` to keep the other layers if one is wrong.
        """
        return ()

    async def change_index(self, layer: Layer, fetch: Fetch) -> ChangeIndex | None:
        """Returns what the site says of the changes of a layer, or None if it says nothing.

        A harvest reads the index before any tile. It then asks for no tile that is unchanged by the index,
        except for a few that show whether the index is right. So the index must differ after every render
        that has changed a tile, and the renderer must write it after the tiles. Reading it may cost a few
        small files, whatever the size of the map. Raises SiteError if it cannot be read; the harvest then
        does without it.
        """
        return None if layer.stamp is None else ChangeIndex(layer.stamp)

    def markers(self, layer: Layer) -> str | None:
        """Returns the address of a file that says where the site shows something, such as its markers.

        An endless layer is searched from there, too.
        """
        return None

    def understood(self, answer: Answer) -> Answer:
        """Returns a server's answer about a tile, as a plain file server would have given it.

        Some renderers bring their own server. Its answer for a missing tile becomes 404, and an ETag that
        does not distinguish the states of the tile is removed. This is called for each answer to HEAD
        and GET, redirects included. A redirect is followed only if it is returned as it is.
        """
        return answer
