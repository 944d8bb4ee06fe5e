"""`scrapy mosaic NAME [FILE]`: the map, or a part of it, as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from tileharvest.commands.export_command import ExportCommand, check_quality, picture_of, progress
from tileharvest.maps.budgets import bytes_in_words

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings


class Command(ExportCommand, ScrapyCommand):
    form = "[options] NAME [FILE]"
    summary = "Make one picture of a map or of a part of it, as it was on a day"
    details = (
        "FILE ends with .png, .jpg, .webp, .avif or .tif (default: NAME-DAY.png); a file of that name is"
        " replaced. Exit status: 0 done, 1 error, 2 wrong usage, 3 some images could not be read and are left"
        " blank."
    )
    arguments = range(1, 3)
    usage = "say which map: scrapy {word} NAME [FILE]"
    has_picture = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--quality", type=int, help="of JPEG, WebP and AVIF, 1 to 100")

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        from tileharvest.export.mosaic import write_mosaic
        from tileharvest.store.settings import open_store_for_reading

        check_quality(opts.quality)
        with self.excerpt(settings, args[0], opts) as excerpt:
            path = Path(args[1] if len(args) == 2 else f"{args[0]}-{excerpt.last}.png")
            sheet, background = picture_of(excerpt, path, opts)
            store = open_store_for_reading(settings)
            with progress(settings, args[0], as_json=opts.json) as watch:
                written, damaged = write_mosaic(
                    sheet, path, store, watch, background, quality=opts.quality, most_bytes=opts.max_bytes
                )
        told = {**sheet.as_plain(), "file": str(path), "bytes": written}
        size = f"{sheet.box.width:,} x {sheet.box.height:,} pixels"
        words = f"{path}: {size}, {bytes_in_words(written)}"
        self.tell(told, words, damaged, as_json=opts.json)
