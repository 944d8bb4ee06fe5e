"""`tileharvest publish NAME FOLDER`: the time machine as files, which need no server."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from pathlib import Path

from scrapy.settings import BaseSettings

from tileharvest.commands.export_command import PLACE, ExportCommand, areas_of
from tileharvest.commands.project_command import Answer, number, value
from tileharvest.errors import ConfigurationError, counted
from tileharvest.export.excerpt import day_of, excerpt_of, nothing_there, zooms_between
from tileharvest.export.published_folder import Layers, Published, publish, published_zooms
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.history.settings import open_history_for_reading
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.maps_file import maps_if_any
from tileharvest.maps.settings import maps_file
from tileharvest.store.settings import open_store


class Command(ExportCommand):
    arguments = "NAME FOLDER"
    summary = "Publish a map's history as files, which need no server"
    details = (
        "FOLDER must not be there, be empty, or hold what was published of this map before: then only what"
        " is new is written."
    )
    examples = ("my-server public", "my-server public --days 30 --zooms=-5..0")
    options = {
        **PLACE,
        "--days": value("the days of the last N harvests (default: all)", number(int, 1), metavar="N"),
        "--zooms": value("such as -5..0 (default: all that have images)"),
    }

    def answer(self, opts: Namespace) -> Answer:
        name, folder = opts.name, Path(opts.folder)
        with open_history_for_reading(self.settings) as history:
            layers = _layers(self.settings, history, opts)
            names, first = ", ".join(one.layer.name for one, _ in layers), layers[0][0]
            self.announce(opts, f"{folder}: {name}, layers {names}, {first.first} to {first.last}")
            entry = maps_if_any(maps_file(self.settings)).get(name)
            with self.watch(opts) as watch:
                url = None if entry is None else entry.url
                published = publish(layers, url, folder, open_store(self.settings), watch)
        result = {"map": name, "folder": str(folder), **dataclasses.asdict(published)}
        return self.report(result, published.missing, _in_words(folder, published))


def _layers(settings: BaseSettings, history: History, opts: Namespace) -> Layers:
    """Returns the excerpts to publish: of all layers, or of the one that --layer or --area names."""
    outline = map_outline(history, opts.name)
    last = day_of(outline, None)
    first = outline.days[-min(opts.days or len(outline.days), len(outline.days))]
    named = areas_of(settings, opts.name)
    layer = opts.layer or (named[opts.area].layer if opts.area in named else None)
    names = [layer] if layer else [one.name for one in outline.layers if one.kept_zooms(last)]
    layers = []
    fault = ConfigurationError(f"map '{opts.name}' had no tile yet on {last}; nothing was made")
    for one in names:
        wanted = {"layer": one, "area": opts.area, "first": str(first), "day": str(last)}
        excerpt = excerpt_of(history, opts.name, named, **wanted)
        try:
            if excerpt.ground is not None and excerpt.box(excerpt.zooms()[0]) is None:
                raise nothing_there(excerpt)
            layers.append((excerpt, zooms_between(published_zooms(excerpt), opts.zooms)))
        except ConfigurationError as error:
            # Another layer may have what this one lacks.
            fault = error
    if not layers:
        raise fault
    return layers


def _in_words(folder: Path, published: Published) -> str:
    words = (
        f"{folder}: {counted(published.images, 'image')}, {published.new_images:,} of them new;"
        f" {counted(published.lists, 'list')}, {published.new_lists:,} new;"
        f" {bytes_in_words(published.bytes)} written"
    )
    if published.removed:
        words += f"; {counted(published.removed, 'file')} removed that nothing names any more"
    return words
