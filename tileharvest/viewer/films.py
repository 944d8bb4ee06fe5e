"""Films that the viewer makes, for browsers that cannot make their own."""

from __future__ import annotations

import tempfile
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError
from tileharvest.export.excerpt import Excerpt
from tileharvest.export.film import FilmStyle, film_of, write_film
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.viewer.parameters import Parameters
from tileharvest.viewer.rectangles import RECTANGLE, ground_in
from tileharvest.viewer.replies import RefusedError, unknown, wrong

if TYPE_CHECKING:
    from tileharvest.export.picture_file import Watch
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import TileRange
    from tileharvest.viewer.api import Query
    from tileharvest.viewer.served_maps import ServedMaps

MOST_FRAMES: Final = 366
"""A year of days; a film of them takes about a minute."""
MOST_BYTES: Final = 128 << 20
"""Of a film, about: it is held in memory, and so is its reply."""
_WIDTH: Final = 960
"""Pixels."""
_HEIGHT: Final = (64, 960)
"""Pixels, at least and at most."""


def film(
    served: ServedMaps,
    store: TileStore,
    map_name: str,
    query: Query,
    most_tiles: int,
    watch: Watch,
) -> bytes:
    """Returns an animated WebP of a rectangle through time. Raises RefusedError.

    With the ground that the frame shows around it the rectangle may have so many tiles of the deepest zoom.
    The watch is told of each frame.
    """
    parameters = Parameters(query, ("layer",), (*RECTANGLE, "from", "to"))
    history, outline, layer = served.layer(map_name, parameters.text("layer"))
    if most_tiles == 0:
        raise RefusedError(
            HTTPStatus.FORBIDDEN,
            "this viewer makes no films: `scrapy serve --films 400` lets it, and `scrapy film` makes one",
        )
    if not layer.zooms:
        raise unknown("nothing was ever recorded in this layer")
    first = parameters.day("from") if "from" in parameters else outline.days[0]
    last = parameters.day("to") if "to" in parameters else outline.days[-1]
    if not outline.days[0] <= first <= last:
        raise wrong(f"a film from {first} to {last} cannot be: the history begins on {outline.days[0]}")
    ground = ground_in(parameters, layer.described(last), outline.renderer)
    if ground is None:
        raise wrong("a rectangle is missing: give 'ground' or 'area'")
    deepest = max(layer.zooms)
    # Before anything is asked: whoever zooms out far is told so at once.
    _expect_few(ground.tiles(deepest, layer.factor), most_tiles)
    height = round(_WIDTH * (ground.north - ground.south) / (ground.east - ground.west))
    size = _WIDTH, min(max(_HEIGHT[0], height - height % 2), _HEIGHT[1])
    excerpt = Excerpt(history, outline, layer, ground, first, last)
    try:
        made = film_of(excerpt, Path("film.webp"), FilmStyle(size))
    except ConfigurationError as error:
        raise wrong(str(error)) from None
    # The ground around the rectangle is seen, too: of a narrow one that is most of the frame.
    _expect_few(made.lens.tiles(made.moments[0].corner).at_zoom(deepest, layer.factor), most_tiles)
    if len(made.moments) > MOST_FRAMES:
        raise wrong(
            f"it changed here on {len(made.moments)} days, and films here have {MOST_FRAMES} at most: write"
            " from= and to="
        )
    if made.expected_bytes > MOST_BYTES:
        raise wrong(
            f"this film would have about {bytes_in_words(made.expected_bytes)}, and films here have"
            f" {bytes_in_words(MOST_BYTES)} at most: write from= and to= for fewer days"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.webp"
        _, damaged = write_film(made, path, store, watch)
        if damaged:
            raise RefusedError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "an image of this rectangle is missing or damaged: `scrapy check-store` names it",
            )
        return path.read_bytes()


def _expect_few(tiles: TileRange, most: int) -> None:
    # Python's `len` cannot tell of more than 2^63 tiles.
    if (number := len(tiles.columns) * len(tiles.rows)) > most:
        raise wrong(
            f"a film of this rectangle shows {number:,} tiles, and films here show {most:,} at most: come"
            " nearer"
        )
