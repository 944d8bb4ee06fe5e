"""`scrapy film NAME [FILE]`: a map, or a part of it, through time, as a film."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from tileharvest.commands.export_command import ExportCommand, announce, check_quality, progress, zoom_of
from tileharvest.errors import ConfigurationError, counted
from tileharvest.maps.budgets import bytes_in_words

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

_EVERY = ("change", "day", "week", "month")
_CAMERAS = ("fixed", "follow")


class Command(ExportCommand, ScrapyCommand):
    form = "[options] NAME [FILE]"
    summary = "Make a film of a map or of a part of it: how it changed"
    details = (
        "FILE ends with .mp4 or .webm, which need PyAV (pip install av), or with .webp or .gif (default:"
        " NAME-DAY.mp4, or .webp without PyAV); a file of that name is replaced. Exit status: 0 done, 1"
        " error, 2 wrong usage, 3 some images could not be read and are left blank."
    )
    arguments = range(1, 3)
    usage = "say which map: scrapy {word} NAME [FILE]"
    has_day = False
    has_period = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--size", default="wide", help="wide (default), square, upright, or 1280x720")
        parser.add_argument(
            "--every", choices=_EVERY, default="change", help="of what there is a frame (default: change)"
        )
        parser.add_argument("--pace", type=float, default=0.5, help="seconds of each frame (default: 0.5)")
        parser.add_argument(
            "--camera",
            choices=_CAMERAS,
            default="fixed",
            help="fixed shows all (default), follow goes near to where most has changed",
        )
        parser.add_argument("--title", default="", help="what is written above")
        parser.add_argument("--font", help="a file with the font of the lettering")
        parser.add_argument("--background", help="a colour behind the map, such as black")
        parser.add_argument("--quality", type=int, help="1 to 100; not of .gif, which has 255 colours")

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        from tileharvest.export.film import FilmStyle, film_of, size_of, write_film
        from tileharvest.export.film_file import usual_ending
        from tileharvest.store.settings import open_store_for_reading

        check_quality(opts.quality)
        if not 0.05 <= opts.pace <= 60:
            raise ConfigurationError(
                f"--pace {opts.pace:g} cannot be: a frame is shown for 0.05 to 60 seconds"
            )
        with self.excerpt(settings, args[0], opts) as excerpt:
            style = FilmStyle(
                size_of(opts.size),
                zoom_of(excerpt, opts.zoom),
                opts.camera,
                opts.every,
                opts.pace,
                opts.title,
                opts.font,
                opts.background,
                opts.quality,
            )
            path = Path(args[1] if len(args) == 2 else f"{args[0]}-{excerpt.last}{usual_ending()}")
            film = film_of(excerpt, path, style)
            store = open_store_for_reading(settings)
            announce(f"{path}: {film.in_words()}", as_json=opts.json)
            with progress(settings, args[0], as_json=opts.json) as watch:
                written, damaged = write_film(film, path, store, watch, opts.max_bytes)
        told = {**film.as_plain(), "file": str(path), "bytes": written}
        frames = counted(len(film.moments), "frame")
        words = f"{path}: {frames}, {film.seconds:,.0f} s, {bytes_in_words(written)}"
        self.tell(told, words, damaged, as_json=opts.json)
