"""Answers with pictures of levels that the history lacks."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from tileharvest.pictures.composer import Composer, ComposerStoppedError, Scene
from tileharvest.pictures.pixels import LARGEST
from tileharvest.viewer.answers import AFTER_ASKING, FOR_EVER, NEVER, Answer, RefusedError, quoted, unknown
from tileharvest.viewer.parameters import Parameters, parse_day, parse_tile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from tileharvest.history.outlines import LayerOutline
    from tileharvest.tiles.grid import Tile
    from tileharvest.viewer.answers import Caller
    from tileharvest.viewer.served import ServedMaps


class ComposedPictures:
    """May be used by several threads."""

    def __init__(self, served: ServedMaps, composer: Composer) -> None:
        self._served = served
        self._composer = composer

    def answer(self, names: Sequence[str], query: Sequence[tuple[str, str]], caller: Caller) -> Answer:
        """The picture of a tile on a day, both in the address; the layer is a parameter.

        May be kept for ever where the day is before the map's last one, for the past does not change.
        Raises RefusedError where there was nothing by that day, or what there was is an image itself, and
        while the viewer is being stopped.
        """
        map_name, tile_name, picture_name = names
        layer_name = Parameters(query, ("layer",)).text("layer")
        tile, day = parse_tile(tile_name), _day_of(picture_name)
        scene = self._scene(map_name, layer_name, tile, day)
        try:
            return self._composed(scene, tile, day, caller)
        except ComposerStoppedError:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "the viewer is being stopped") from None

    def _composed(self, scene: Scene, tile: Tile, day: date, caller: Caller) -> Answer:
        plan = self._composer.plan(scene, tile)
        if plan is None:
            raise unknown(f"there was nothing at {tile} by {day}")
        tag = f'"{plan.key}"'
        lasts = FOR_EVER if day < scene.settled else AFTER_ASKING
        headers = {"Content-Type": "image/png", "Cache-Control": lasts, "ETag": tag}
        if caller.knows(tag):
            return Answer(b"", headers, HTTPStatus.NOT_MODIFIED)
        picture = self._composer.picture(scene, plan)
        if not picture.whole:
            headers = {"Content-Type": "image/png", "Cache-Control": NEVER}
        return Answer(picture.body, headers)

    def stop(self) -> None:
        """Ends what is being composed."""
        self._composer.stop()

    def _scene(self, map_name: str, layer_name: str, tile: Tile, day: date) -> Scene:
        history, outline, layer = self._served.layer(map_name, layer_name)
        source = layer.source_zoom(tile.zoom, day)
        if source is None:
            raise unknown(f"there was nothing at {tile} by {day}")
        if source == tile.zoom:
            raise unknown(f"tiles of zoom {tile.zoom} are not composed: a view tells their images")
        return Scene(history, layer.id, day, source, _tile_size(layer, day), outline.days[-1])


def _day_of(name: str) -> date:
    day = parse_day(name.removesuffix(".png")) if name.endswith(".png") else None
    if day is None:
        raise unknown(f"{quoted(name)} is no picture's name: write its day, as in 2021-02-13.png")
    return day


def _tile_size(layer: LayerOutline, day: date) -> int:
    size = layer.described(day).tile_size
    if size > LARGEST:
        raise unknown(f"tiles of {size} pixels are not composed")
    return size
