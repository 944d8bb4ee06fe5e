"""The films that the server makes for browsers that cannot make their own."""

from __future__ import annotations

import tempfile
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError, program
from tileharvest.export.excerpt import Excerpt
from tileharvest.export.film import FilmStyle, film_of, write_film
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.viewer.parameters import Parameters
from tileharvest.viewer.rectangles import RECTANGLE, needed_ground
from tileharvest.viewer.replies import RefusedError, damaged, unknown, wrong

if TYPE_CHECKING:
    from tileharvest.export.target import Watch
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import TileRange
    from tileharvest.viewer.parameters import Query
    from tileharvest.viewer.served_maps import ServedMaps

MOST_FRAMES: Final = 366
"""The most frames of a film: a year of days, which takes about a minute."""
MOST_BYTES: Final = 128 << 20
"""The most bytes that a film may have. The film and its reply are held in memory."""
_WIDTH: Final = 960
"""Pixels of a film along its horizontal edge."""
_HEIGHT: Final = (64, 960)
"""The least and the most pixels of a film along its vertical edge."""


def film(
    served: ServedMaps,
    store: TileStore,
    map_name: str,
    query: Query,
    most_tiles: int,
    watch: Watch,
) -> bytes:
    """Returns an animated WebP of a rectangle through time. Raises RefusedError.

    `most_tiles` is the most tiles of the deepest zoom that a frame may show, around the rectangle too. The
    watch is told of each frame.
    """
    parameters = Parameters(query, ("layer",), (*RECTANGLE, "from", "to"))
    history, outline, layer = served.layer(map_name, parameters.text("layer"))
    if most_tiles == 0:
        raise RefusedError(
            HTTPStatus.FORBIDDEN,
            f"this viewer makes no films: `{program()} serve --films 400` lets it, and `{program()} film`"
            " makes one",
        )
    if not layer.zooms:
        raise unknown("nothing was ever recorded in this layer")
    first = parameters.day("from") if "from" in parameters else outline.days[0]
    last = parameters.day("to") if "to" in parameters else outline.days[-1]
    if not outline.days[0] <= first <= last:
        raise wrong(f"a film from {first} to {last} cannot be: the history begins on {outline.days[0]}")
    ground = needed_ground(parameters, layer.described(last), outline.renderer)
    deepest = max(layer.zooms)
    # This comes before any question to the history, so a person who is zoomed out far is told at once.
    _expect_few(ground.tiles(deepest, layer.factor), most_tiles)
    height = round(_WIDTH * (ground.north - ground.south) / (ground.east - ground.west))
    size = _WIDTH, min(max(_HEIGHT[0], height - height % 2), _HEIGHT[1])
    excerpt = Excerpt(history, outline, layer, ground, first, last)
    try:
        made = film_of(excerpt, Path("film.webp"), FilmStyle(size))
    except ConfigurationError as error:
        raise wrong(str(error)) from None
    # The frame also shows ground around the rectangle. Around a narrow rectangle that is most of the frame.
    _expect_few(made.lens.tiles().at_zoom(deepest, layer.factor), most_tiles)
    if len(made.moments) > MOST_FRAMES:
        raise wrong(
            f"it changed here on {len(made.moments)} days, and films here have {MOST_FRAMES} at most: write"
            " from= and to="
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.webp"
        _, lost = write_film(made, path, store, watch)
        if path.stat().st_size > MOST_BYTES:
            raise wrong(
                f"films here have {bytes_in_words(MOST_BYTES)} at most, and this one has more: write from="
                " and to= for fewer days"
            )
        if lost:
            raise damaged("rectangle")
        return path.read_bytes()


def _expect_few(tiles: TileRange, most: int) -> None:
    # Python's `len` cannot tell of more than 2^63 tiles.
    if (number := len(tiles.columns) * len(tiles.rows)) > most:
        raise wrong(
            f"a film of this rectangle shows {number:,} tiles, and films here show {most:,} at most: come"
            " nearer"
        )
