"""`scrapy areas NAME [add AREA CORNER CORNER | remove AREA]`: the named areas of a map."""

from __future__ import annotations

import re
import sys
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import msgspec
from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from tileharvest.commands.project_command import ProjectCommand
from tileharvest.commands.terminal import say, write_answer, write_rows
from tileharvest.errors import ConfigurationError, counted
from tileharvest.maps.named_areas import NamedArea, add_area, load_areas, remove_area
from tileharvest.maps.settings import areas_file

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.commands.terminal import Columns
    from tileharvest.history.database import History
    from tileharvest.history.outlines import MapOutline

_LENGTHS: Final = {"": 1, "add": 5, "remove": 3}
"""The number of arguments for each word behind the map's name."""
_CORNER: Final = re.compile(r"(-?(?:0|[1-9]\d{0,8})(?:\.\d+)?),(-?(?:0|[1-9]\d{0,8})(?:\.\d+)?)", re.ASCII)


class Command(ProjectCommand, ScrapyCommand):
    form = "[options] NAME [add AREA CORNER CORNER | remove AREA]"
    summary = "List the named areas of a map, add one, or remove one"
    details = (
        "A corner is X,Z, such as 80,-400; of plain tiles it is LATITUDE,LONGITUDE. The viewer has a page for"
        " each area, and `areas` in maps.toml asks for notices of them alone."
    )
    arguments = range(1, sys.maxsize)
    usage = 'say which map: scrapy areas NAME, scrapy areas NAME add "my base" 80,-400 240,-200'

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--layer", help="the layer in which an added area lies (default: the map's first)"
        )

    def check(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        super().check(settings, args, opts)
        if len(args) != _LENGTHS.get(args[1] if args[1:] else "", 0):
            raise UsageError(_usage_of(args[1] if args[1:] else ""), print_help=False)
        if opts.layer is not None and args[1:2] != ["add"]:
            raise ConfigurationError("--layer is for an area that is added")

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        name, file = args[0], areas_file(settings)
        if args[1:2] == ["remove"]:
            remove_area(file, name, args[2])
            removed = f"area '{args[2]}' of map '{name}' is removed; the history keeps all of it"
            write_answer({"map": name, "removed": args[2]}, removed, as_json=opts.json)
            return
        from tileharvest.history.outlines import map_outline
        from tileharvest.history.settings import open_history_for_reading

        with open_history_for_reading(settings) as history:
            outline = map_outline(history, name)
            if args[1:2] == ["add"]:
                area = _parsed(outline, args[2], args[3:], opts.layer)
                row = _row(history, outline, area)
                if row["fault"]:
                    raise ConfigurationError(f"area '{area.name}' is not added: {row['fault']}")
                add_area(file, name, area)
                write_answer(row, _added(name, row), as_json=opts.json)
                return
            rows = [_row(history, outline, area) for area in load_areas(file).get(name, [])]
        nothing = f"map '{name}' has no area yet: scrapy areas {name} add AREA X,Z X,Z"
        write_rows(rows, _COLUMNS, as_json=opts.json, otherwise=nothing)
        for row in rows:
            if row["fault"]:
                say(f"warning: area '{row['name']}' of map '{name}' tells of no change: {row['fault']}")


def _usage_of(word: str) -> str:
    """Returns how the command is written. `word` is the one behind the map's name."""
    if word == "add":
        return 'write each corner as X,Z in one word: scrapy areas NAME add "my base" 80,-400 240,-200'
    return 'write scrapy areas NAME, or NAME add "my base" 80,-400 240,-200, or NAME remove "my base"'


def _parsed(outline: MapOutline, name: str, corners: list[str], layer: str | None) -> NamedArea:
    """Returns the area that the arguments describe. Raises ConfigurationError."""
    found = [_CORNER.fullmatch(corner) for corner in corners]
    for corner, match in zip(corners, found, strict=True):
        if match is None:
            raise ConfigurationError(f"'{corner}' is no corner: write two numbers, such as 80,-400")
    area = {
        "name": name,
        "layer": layer or next((one.name for one in outline.layers), ""),
        # As they were written: whole numbers without a point.
        "corners": [[msgspec.json.decode(match[number]) for number in (1, 2)] for match in found if match],
    }
    try:
        return msgspec.convert(area, NamedArea)
    except msgspec.ValidationError as error:
        raise ConfigurationError(str(error).partition(" - at `$")[0]) from None


def _row(history: History, outline: MapOutline, area: NamedArea) -> dict[str, Any]:
    """Returns what programs are told of an area. Its `fault` says why the area is not on the map any more."""
    from tileharvest.history.area_changes import changed_in, place_of

    tiles, fault = 0, None
    days: list[date] = []
    try:
        layer, rectangle = place_of(area, outline)
        days = list(changed_in(history, layer, rectangle, date.min))
        if layer.zooms:
            projection, zoom = layer.latest.projection, max(layer.zooms)
            around = rectangle.ground(projection).tiles(zoom, layer.factor)
            tiles = sum(rectangle.is_on(tile, projection, layer.factor) for tile in around)
    except ConfigurationError as error:
        fault = str(error)
    return {
        **msgspec.to_builtins(area),
        "tiles": tiles,
        "days": len(days),
        "last_change": days[-1].isoformat() if days else None,
        "fault": fault,
    }


def _added(map_name: str, row: dict[str, Any]) -> str:
    changed = f", last changed on {row['last_change']}" if row["last_change"] else "; nothing was ever there"
    return (
        f"area '{row['name']}' of map '{map_name}': {counted(row['tiles'], 'tile')} of layer"
        f" '{row['layer']}'{changed}"
    )


def _corners(row: Any) -> str:
    return " ".join(",".join(f"{number:.9g}" for number in corner) for corner in row["corners"])


_COLUMNS: Final[Columns] = {
    "area": "name",
    "layer": "layer",
    "corners": _corners,
    ">tiles": "tiles",
    ">days with a change": "days",
    "last change": "last_change",
}
