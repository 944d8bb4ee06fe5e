"""`tileharvest areas NAME [add AREA CORNER CORNER | remove AREA]`: the named areas of a map."""

from __future__ import annotations

import re
from argparse import Namespace
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import msgspec
from scrapy.commands import ScrapyCommand

from tileharvest.commands.project_command import ProjectCommand, value
from tileharvest.commands.terminal import say, write_answer, write_rows
from tileharvest.errors import ConfigurationError, counted, program
from tileharvest.maps.named_areas import NamedArea, add_area, load_areas, remove_area
from tileharvest.maps.settings import areas_file

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.history.outlines import MapOutline

_CORNER: Final = re.compile(r"(-?(?:0|[1-9]\d{0,8})(?:\.\d+)?),(-?(?:0|[1-9]\d{0,8})(?:\.\d+)?)", re.ASCII)


class Command(ProjectCommand, ScrapyCommand):
    arguments = "NAME [WORD...]"
    form = "NAME [add AREA CORNER CORNER | remove AREA]"
    summary = "List the named areas of a map, add one, or remove one"
    details = (
        "A corner is X,Z, such as 80,-400; of plain tiles it is LATITUDE,LONGITUDE. The viewer has a page for"
        " each area, and `areas` in maps.toml asks for notices of them alone."
    )
    examples = ("my-server", 'my-server add "my base" 80,-400 240,-200')
    options = {"--layer": value("the layer in which an added area lies (default: the map's first)")}

    def check(self, opts: Namespace) -> None:
        match opts.word:
            case ["add", _, _, _] | ["remove", _] | []:
                pass
            case ["add", *_]:
                raise ConfigurationError(
                    f'write each corner as X,Z in one word: {program()} areas {opts.name} add "my base"'
                    " 80,-400 240,-200"
                )
            case _:
                raise self.wrong_usage()
        if opts.layer is not None and opts.word[:1] != ["add"]:
            raise ConfigurationError("--layer is for an area that is added")

    def answer(self, opts: Namespace) -> None:
        name, file = opts.name, areas_file(self.settings)
        if opts.word[:1] == ["remove"]:
            remove_area(file, name, opts.word[1])
            removed = f"area '{opts.word[1]}' of map '{name}' is removed; the history keeps all of it"
            write_answer({"map": name, "removed": opts.word[1]}, removed, as_json=opts.json)
            return
        from tileharvest.history.outlines import map_outline
        from tileharvest.history.settings import open_history_for_reading

        with open_history_for_reading(self.settings) as history:
            outline = map_outline(history, name)
            if opts.word:
                _, wanted, *corners = opts.word
                area = _parsed(outline, wanted, corners, opts.layer)
                row = _row(history, outline, area)
                if row["fault"]:
                    raise ConfigurationError(f"area '{area.name}' is not added: {row['fault']}")
                add_area(file, name, area)
                write_answer(row, _added(name, row), as_json=opts.json)
                return
            rows = [_row(history, outline, area) for area in load_areas(file).get(name, [])]
        nothing = f"map '{name}' has no area yet: {program()} areas {name} add AREA X,Z X,Z"
        write_rows(rows, _COLUMNS, as_json=opts.json, otherwise=nothing)
        for row in rows:
            if row["fault"]:
                say(f"warning: area '{row['name']}' of map '{name}' shows no change: {row['fault']}")


def _parsed(outline: MapOutline, name: str, corners: list[str], layer: str | None) -> NamedArea:
    """Returns the area that the arguments describe. Raises ConfigurationError."""
    found = [_CORNER.fullmatch(corner) for corner in corners]
    for corner, match in zip(corners, found, strict=True):
        if match is None:
            raise ConfigurationError(f"'{corner}' is not a corner: write two numbers, such as 80,-400")
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
    """Returns an area for programs. Its `fault` says why the area is not on the map any more."""
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


_COLUMNS: Final = {
    "area": "name",
    "layer": "layer",
    "corners": _corners,
    ">tiles": "tiles",
    ">days with a change": "days",
    "last change": "last_change",
}
