"""`tileharvest areas NAME [add AREA CORNER CORNER | remove AREA]`: the named areas of a map."""

from __future__ import annotations

from argparse import Namespace
from datetime import date
from typing import Any, Final

import msgspec

from tileharvest.commands.project_command import Answer, ProjectCommand, value
from tileharvest.commands.terminal import say, table_of
from tileharvest.errors import ConfigurationError, counted, program
from tileharvest.history.area_changes import changed_in, place_of
from tileharvest.history.database import History
from tileharvest.history.outlines import MapOutline, map_outline
from tileharvest.history.settings import open_history_for_reading
from tileharvest.maps.named_areas import NamedArea, add_area, load_areas, remove_area
from tileharvest.maps.settings import areas_file
from tileharvest.tiles.ground import Ground, shows

_COLUMNS: Final = {
    "area": "name",
    "layer": "layer",
    "corners": lambda row: " ".join(f"{x:.9g},{z:.9g}" for x, z in row["corners"]),
    ">tiles": "tiles",
    ">days with a change": "days",
    "last change": "last_change",
}


class Command(ProjectCommand):
    arguments = "NAME [WORD...]"
    form = "NAME [add AREA X,Z X,Z | remove AREA]"
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

    def answer(self, opts: Namespace) -> Answer:
        name, file = opts.name, areas_file(self.settings)
        if opts.word[:1] == ["remove"]:
            remove_area(file, name, opts.word[1])
            removed = f"area '{opts.word[1]}' of map '{name}' is removed; the history keeps all of it"
            return {"map": name, "removed": opts.word[1]}, [removed]
        with open_history_for_reading(self.settings) as history:
            outline = map_outline(history, name)
            if not opts.word:
                rows = [_row(history, outline, area) for area in load_areas(file).get(name, [])]
                for row in rows:
                    if row["fault"]:
                        say(f"warning: area '{row['name']}' of map '{name}' shows no change: {row['fault']}")
                nothing = f"map '{name}' has no area yet: {program()} areas {name} add AREA X,Z X,Z"
                return rows, table_of(rows, _COLUMNS, nothing)
            area = _parsed(outline, opts.word[1], opts.word[2:], opts.layer)
            row = _row(history, outline, area)
        if row["fault"]:
            raise ConfigurationError(f"area '{area.name}' is not added: {row['fault']}")
        add_area(file, name, area)
        changed = "nothing was ever there"
        if row["last_change"]:
            changed = f"last changed on {row['last_change']}"
        tiles = f"{counted(row['tiles'], 'tile')} of layer '{row['layer']}'"
        return row, [f"area '{area.name}' of map '{name}': {tiles}, {changed}"]


def _parsed(outline: MapOutline, name: str, corners: list[str], layer: str | None) -> NamedArea:
    """Returns the area that the arguments describe. Raises ConfigurationError."""
    numbers = []
    for corner in corners:
        try:
            # As they were written: whole numbers without a point.
            numbers.append(msgspec.json.decode(f"[{corner}]", type=tuple[int | float, int | float]))
        except ValueError:
            raise ConfigurationError(
                f"'{corner}' is not a corner: write two numbers, such as 80,-400"
            ) from None
    first = next((one.name for one in outline.layers), "")
    try:
        return msgspec.convert({"name": name, "layer": layer or first, "corners": numbers}, NamedArea)
    except msgspec.ValidationError as error:
        raise ConfigurationError(str(error).partition(" - at `$")[0]) from None


def _row(history: History, outline: MapOutline, area: NamedArea) -> dict[str, Any]:
    """Returns an area for programs. Its `fault` says why the area is not on the map any more."""
    tiles, fault = 0, None
    days: list[date] = []
    try:
        layer, rectangle = place_of(area, outline)
        days = list(changed_in(history, layer, rectangle, date.min))
        if layer.zooms:
            projection, zoom = layer.latest.projection, max(layer.zooms)
            around = Ground.of_places(rectangle, projection).tiles(zoom, layer.factor)
            tiles = sum(shows(tile, rectangle, projection, layer.factor) for tile in around)
    except ConfigurationError as error:
        fault = str(error)
    return {
        **msgspec.to_builtins(area),
        "tiles": tiles,
        "days": len(days),
        "last_change": days[-1].isoformat() if days else None,
        "fault": fault,
    }
