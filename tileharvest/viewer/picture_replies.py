"""Answers made of images: composed tiles, rectangles on a day, the story of their pixels, and films."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tileharvest.errors import ConfigurationError, program
from tileharvest.export.excerpt import Excerpt
from tileharvest.export.film import FilmStyle, film_of, write_film
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.pictures.composer import PastLayer
from tileharvest.pictures.pixel_story import PixelStory
from tileharvest.pictures.pixels import LARGEST, UNREADABLE
from tileharvest.pictures.scenes import Scenes, as_jpeg
from tileharvest.viewer.parameters import RECTANGLE, Parameters, needed_ground, parse_tile, picture_days
from tileharvest.viewer.replies import (
    AFTER_ASKING,
    NEVER,
    RefusedError,
    damaged,
    knows,
    not_modified,
    reply,
    unknown,
    wrong,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from aiohttp import web

    from tileharvest.export.target import Watch
    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.pictures.composer import Composer
    from tileharvest.pictures.pixel_story import Chapter
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import Tile, TileRange
    from tileharvest.tiles.ground import Ground
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


def composed_picture(
    served: ServedMaps, composer: Composer, names: Sequence[str], request: web.BaseRequest
) -> web.Response:
    """Replies with the picture of a tile on a day. Both are in the address, and the layer is a parameter.

    A cache must ask again each time, because an import may bring a past that was not known. Raises
    RefusedError if nothing was there by that day, and if the tile has an image of its own. Raises
    ComposerStoppedError if the viewer is being stopped. May be called by several threads.
    """
    map_name, tile_name, picture_name = names
    layer_name = Parameters(request.query.items(), ("layer",)).text("layer")
    tile, (day,) = parse_tile(tile_name), picture_days([picture_name], ".png")
    past = _past(served, map_name, layer_name, tile, day)
    composition = composer.composition(past, tile)
    if composition is None:
        raise unknown(f"there was nothing at {tile} by {day}")
    tag = f'"{composition.key}"'
    headers = {"Content-Type": "image/png", "Cache-Control": AFTER_ASKING, "ETag": tag}
    if knows(request, tag):
        return not_modified(headers)
    picture = composer.picture(past, composition)
    if not picture.whole:
        headers = {"Content-Type": "image/png", "Cache-Control": NEVER}
    return reply(picture.body, headers)


def _past(served: ServedMaps, map_name: str, layer_name: str, tile: Tile, day: date) -> PastLayer:
    history, outline, layer = served.layer(map_name, layer_name)
    past = PastLayer.of(history, outline, layer, day, tile.zoom)
    if past is None:
        raise unknown(f"there was nothing at {tile} by {day}")
    if past.source == tile.zoom:
        raise unknown(f"tiles of zoom {tile.zoom} are not composed: a view names their images")
    width, height = past.tile_size
    if max(width, height) > LARGEST:
        raise unknown(f"tiles of {width} x {height} pixels are not composed")
    return past


def ground_picture(
    served: ServedMaps,
    store: TileStore,
    composer: Composer,
    map_name: str,
    days: Sequence[date],
    query: Query,
) -> bytes:
    """Returns a JPEG of a rectangle. For one day it shows exactly the rectangle. For two days it shows both
    side by side, cropped to the part that differs.

    Returns no bytes if nothing was there by then, if no difference can be seen, or if the rectangle is too
    large. Raises RefusedError, and ComposerStoppedError if the viewer is being stopped.
    """
    history, outline, layer, ground = _asked(served, map_name, query, days[-1])
    scenes = Scenes(store, composer, history, outline, layer)
    try:
        zoom = scenes.zoom(ground, days[-1])
        if zoom is None:
            return b""
        if len(days) > 1:
            return scenes.before_and_after(ground, zoom, *days) or b""
        return as_jpeg(scenes.mosaic(ground, zoom, days[-1]))
    except UNREADABLE:
        raise damaged("rectangle") from None


def pixel_story(served: ServedMaps, store: TileStore, map_name: str, query: Query) -> bytes:
    """Returns the story of a rectangle's pixels: a line of JSON for each day on which they changed, and a
    last line that sums up. Raises RefusedError if there can be no story."""
    history, outline, layer, ground = _asked(served, map_name, query, None)
    if not layer.zooms:
        raise unknown("nothing was ever recorded in this layer")
    try:
        story = PixelStory(store, layer, max(layer.zooms), ground)
    except ValueError as error:
        raise wrong(f"of this rectangle no story can be told: {error}; draw another one") from None
    return b"".join(msgspec.json.encode(line) + b"\n" for line in _told(story, history, outline))


def _told(story: PixelStory, history: History, outline: MapOutline) -> Iterator[dict[str, Any]]:
    days = story.days(history)
    chapters: list[Chapter] = []
    for chapter in story.chapters(days):
        chapters.append(chapter)
        before = outline.day_before(chapter.day) or chapter.day - timedelta(days=1)
        yield {
            "day": chapter.day.isoformat(),
            "before": before.isoformat(),
            "share": round(chapter.share, 6),
            "empty": chapter.is_empty,
            "damaged": chapter.is_damaged,
        }
    last = chapters[-1] if chapters else None
    same = [one.day.isoformat() for one in chapters[:-1] if last is not None and one.shows(last)]
    yield {
        "versions": sum(len(names) for _, names in days),
        "changes": len(chapters),
        "first": chapters[0].day.isoformat() if chapters else None,
        "since": last.day.isoformat() if last is not None else None,
        "same_before": same,
    }


def _asked(
    served: ServedMaps, map_name: str, query: Query, day: date | None
) -> tuple[History, MapOutline, LayerOutline, Ground]:
    parameters = Parameters(query, ("layer",), RECTANGLE)
    history, outline, layer = served.layer(map_name, parameters.text("layer"))
    ground = needed_ground(parameters, layer.described(day or outline.days[-1]), outline.renderer)
    return history, outline, layer, ground


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
    watch learns of each frame.
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
    # This comes before any question to the history, so a person who is zoomed out far learns it at once.
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
    # Python's `len` cannot count more than 2^63 tiles.
    if (number := len(tiles.columns) * len(tiles.rows)) > most:
        raise wrong(
            f"a film of this rectangle shows {number:,} tiles, and films here show {most:,} at most: come"
            " nearer"
        )
