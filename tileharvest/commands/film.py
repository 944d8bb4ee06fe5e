"""`tileharvest film NAME [FILE]`: a map, or a part of it, through time, as a film."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from tileharvest.commands.export_command import FILE, PLACE, ZOOM, ExportCommand, zoom_of
from tileharvest.commands.project_command import Answer, number, value
from tileharvest.errors import counted
from tileharvest.export.film import film_of, size_of, usual_ending, write_film
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.store.settings import open_store


class Command(ExportCommand):
    arguments = "NAME [FILE]"
    summary = "Make a film of a map or of a part of it: how it changed"
    details = (
        "FILE ends with .mp4 or .webm, which need PyAV (pip install av), or with .webp or .gif (default:"
        " NAME-DAY.mp4, or .webp without PyAV); a file of that name is replaced."
    )
    examples = ("my-server", "my-server growth.webp --every week --size 640x360")
    has_period = True
    options = {
        **PLACE,
        **ZOOM,
        **FILE,
        "--from": value("the first day (default: that of the history)", dest="first"),
        "--to": value("the last day (default: that of the history)", dest="day"),
        "--size": value("wide (default), square, upright, or 1280x720", default="wide"),
        "--every": value(
            "of what there is a frame (default: change)",
            choices=("change", "day", "week", "month"),
            default="change",
        ),
        "--pace": value("seconds of each frame (default: 0.5)", number(float, 0.05, 60), default=0.5),
        "--title": value("what is written above", default=""),
        "--background": value("a colour behind the map, such as black"),
        "--quality": value("1 to 100; not of .gif, which has 255 colours", number(int, 1, 100)),
    }

    def answer(self, opts: Namespace) -> Answer:
        with self.excerpt(opts) as excerpt:
            size, zoom = size_of(opts.size), zoom_of(excerpt, opts.zoom)
            path = Path(opts.file or f"{opts.name}-{excerpt.last}{usual_ending()}")
            film = film_of(excerpt, path, size, zoom, opts.every, opts.pace, opts.title)
            store = open_store(self.settings)
            self.announce(opts, f"{path}: {film.in_words()}")
            with self.watch(opts) as watch:
                looks = (opts.background, opts.quality, opts.max_bytes)
                written, damaged = write_film(film, path, store, watch, *looks)
        frames = counted(len(film.days), "frame")
        words = f"{path}: {frames}, {film.seconds:,.0f} s, {bytes_in_words(written)}"
        result = {**film.as_plain(), "file": str(path), "bytes": written, "damaged": damaged}
        return self.report(result, damaged, words)
