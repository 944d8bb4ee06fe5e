"""`tileharvest history NAME [TILE]`: the versions of a map or of one tile."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, Final

from tileharvest.commands.project_command import Answer, ProjectCommand
from tileharvest.commands.terminal import table_of
from tileharvest.errors import ConfigurationError
from tileharvest.history.recorded_versions import RecordedVersion, tile_versions
from tileharvest.history.settings import open_history_for_reading
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.tiles.grid import Tile

_COLUMNS: Final = {
    "day": "day",
    "layer": "layer",
    "tile": "tile",
    "image": lambda row: "gone" if row["sha1"] is None else f"{row['sha1']}.{row['extension']}",
    ">size": lambda row: "" if row["size"] is None else bytes_in_words(row["size"]),
    "ETag": "etag",
}


class Command(ProjectCommand):
    arguments = "NAME [TILE]"
    summary = "List the versions of a map or of one of its tiles, newest last"
    details = (
        "A tile is written zoom_x_y, such as 0_1_1 or -3_-440_216; in a map of several layers layer:zoom_x_y."
    )
    examples = ("my-server", "my-server -3_-440_216")

    def answer(self, opts: Namespace) -> Answer:
        layer, tile = parse_tile(opts.tile) if opts.tile else (None, None)

        with open_history_for_reading(self.settings) as history:
            recorded = tile_versions(history, opts.name, layer, tile)
        nothing = f"the history of map '{opts.name}' has no version of {opts.tile or 'it'}"
        rows = [_plain(one) for one in recorded]
        return rows, table_of(rows, _COLUMNS, nothing, spare=2)


def parse_tile(text: str) -> tuple[str | None, Tile]:
    """Returns the layer's name and the tile of `layer:zoom_x_y`. The name is None for a plain `zoom_x_y`.

    Raises ConfigurationError, with an example.
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
