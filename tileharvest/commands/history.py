"""`scrapy history NAME [TILE]`: the versions of a map or of one tile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand

from tileharvest.commands.map_command import MapCommand
from tileharvest.commands.terminal import write_json, write_line, write_table
from tileharvest.errors import ConfigurationError
from tileharvest.history.recorded_versions import RecordedVersion, tile_versions
from tileharvest.history.settings import open_history_for_reading
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings


class Command(MapCommand, ScrapyCommand):
    arguments = range(1, 3)
    usage = "say which map: scrapy history NAME [TILE]"

    def syntax(self) -> str:
        return "[options] NAME [TILE]"

    def short_desc(self) -> str:
        return "List the versions of a map or of one of its tiles, newest last"

    def long_desc(self) -> str:
        return (
            f"{self.short_desc()}. A tile is written zoom_x_y, such as 0_1_1 or -3_-440_216; in a map"
            " of several layers layer:zoom_x_y."
        )

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        layer, tile = parse_tile(args[1]) if len(args) == 2 else (None, None)
        with open_history_for_reading(settings) as history:
            recorded = tile_versions(history, args[0], layer, tile)
        if opts.json:
            write_json([_plain(version) for version in recorded])
        elif recorded:
            write_table(
                ["day", "layer", "tile", "image", ">size", "ETag"],
                [_line(version) for version in recorded],
            )
        else:
            write_line(f"the history of map '{args[0]}' has no version of {args[1] if tile else 'it'}")


def parse_tile(text: str) -> tuple[str | None, Tile]:
    """Reads `layer:zoom_x_y` or `zoom_x_y`. Returns the layer's name, None if not given, and the tile.

    Raises ConfigurationError with an example.
    """
    layer, _, name = text.rpartition(":")
    try:
        return layer or None, Tile.parse(name)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def _plain(recorded: RecordedVersion) -> dict[str, Any]:
    version = recorded.version
    return {
        "day": version.day.isoformat(),
        "layer": recorded.layer,
        "tile": str(recorded.tile),
        "gone": version.gone,
        "sha1": version.image.sha1 if version.image else None,
        "extension": version.image.extension if version.image else None,
        "size": version.image.size if version.image else None,
        "etag": version.validator.etag,
        "last_modified": version.validator.last_modified,
    }


def _line(recorded: RecordedVersion) -> list[str]:
    image = recorded.version.image
    return [
        recorded.version.day.isoformat(),
        recorded.layer,
        str(recorded.tile),
        image.file_name if image else "gone",
        bytes_in_words(image.size) if image else "",
        recorded.version.validator.etag or "",
    ]
