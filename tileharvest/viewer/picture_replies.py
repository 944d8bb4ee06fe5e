"""Answers made of images: composed tiles, rectangles on a day, and the story of their pixels."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from tileharvest.pictures.composer import Composition, PastLayer
from tileharvest.pictures.pixel_story import PixelStory
from tileharvest.pictures.pixels import LARGEST, UNREADABLE
from tileharvest.pictures.scenes import Scenes, as_jpeg
from tileharvest.tiles.grid import TileRange
from tileharvest.viewer.parameters import Parameters, ground_in, parse_tile, picture_days
from tileharvest.viewer.replies import (
    AFTER_ASKING,
    NEVER,
    damaged,
    knows,
    reply,
    unknown,
    wrong,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aiohttp import web

    from tileharvest.history.database import History
    from tileharvest.history.outlines import LayerOutline, MapOutline
    from tileharvest.pictures.pixel_story import Chapter
    from tileharvest.tiles.ground import Ground
    from tileharvest.viewer.parameters import Query
    from tileharvest.viewer.served_maps import ServedMaps


def composed_picture(served: ServedMaps, request: web.Request) -> web.Response:
    """Replies with the picture of a tile on a day. Both are in the address, and the layer is a parameter.

    A cache must ask again each time, because an import may bring a past that was not known. Raises
    RefusedError if nothing was there by that day, and if the tile has an image of its own. Raises
    ComposerStoppedError if the viewer is being stopped. May be called by several threads.
    """
    map_name, tile_name, picture_name = request.match_info.values()
    layer_name = Parameters(request.query.items(), ("layer",)).text("layer")
    tile, (day,) = parse_tile(tile_name), picture_days([picture_name], ".png")
    past = PastLayer.of(*served.layer(map_name, layer_name), day, tile.zoom)
    if past is not None and (past.source == tile.zoom or max(past.tile_size) > LARGEST):
        raise unknown(f"tiles of zoom {tile.zoom} are not composed: a view names those that are")
    composition = None if past is None else served.composer.parts(past, TileRange.of(tile)).get(tile)
    if past is None or not isinstance(composition, Composition):
        raise unknown(f"there was nothing at {tile} by {day}")
    tag = f'"{composition.key}"'
    headers = {"Content-Type": "image/png", "Cache-Control": AFTER_ASKING, "ETag": tag}
    if knows(request, tag):
        return reply(b"", headers, HTTPStatus.NOT_MODIFIED)
    picture = served.composer.picture(past, composition)
    if not picture.whole:
        headers = {"Content-Type": "image/png", "Cache-Control": NEVER}
    return reply(picture.body, headers)


def ground_picture(served: ServedMaps, names: Sequence[str], query: Query) -> bytes:
    """Returns a JPEG of a rectangle. For one day it shows exactly the rectangle. For two days it shows both
    side by side, cropped to the part that differs.

    Returns no bytes if nothing was there by then, if no difference can be seen, or if the rectangle is too
    large. Raises RefusedError, and ComposerStoppedError if the viewer is being stopped.
    """
    map_name, *texts = names
    days = picture_days(texts, ".jpg")
    history, outline, layer, ground = _asked(served, map_name, query)
    scenes = Scenes(served.store, served.composer, history, outline, layer)
    try:
        zoom = scenes.zoom(ground, days[-1])
        if zoom is None:
            return b""
        if len(days) > 1:
            return scenes.before_and_after(ground, zoom, *days) or b""
        return as_jpeg(scenes.mosaic(ground, zoom, days[-1]))
    except UNREADABLE:
        raise damaged("rectangle") from None


def pixel_story(served: ServedMaps, names: Sequence[str], query: Query) -> bytes:
    """Returns the story of a rectangle's pixels: a line of JSON for each day on which they changed, and a
    last line that sums up. Raises RefusedError if there can be no story."""
    history, outline, layer, ground = _asked(served, names[0], query)
    if not layer.zooms:
        raise unknown("nothing was ever recorded in this layer")
    try:
        story = PixelStory(served.store, layer, max(layer.zooms), ground)
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
    served: ServedMaps, map_name: str, query: Query
) -> tuple[History, MapOutline, LayerOutline, Ground]:
    parameters = Parameters(query, ("layer", "ground"))
    return *served.layer(map_name, parameters.text("layer")), ground_in(parameters)
