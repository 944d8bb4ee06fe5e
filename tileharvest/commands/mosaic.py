"""`tileharvest mosaic NAME [FILE]`: the map, or a part of it, as one picture."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from tileharvest.commands.export_command import DAY, FILE, PICTURE, PLACE, ZOOM, ExportCommand
from tileharvest.commands.project_command import Answer, number, value
from tileharvest.export.mosaic import write_mosaic
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.store.settings import open_store


class Command(ExportCommand):
    arguments = "NAME [FILE]"
    summary = "Make one picture of a map or of a part of it, as it was on a day"
    details = (
        "FILE ends with .png, .jpg, .webp, .avif or .tif (default: NAME-DAY.png); a file of that name is"
        " replaced."
    )
    examples = ("my-server", "my-server castle.webp --area=-100,-50,100,50 --day 2026-11-20")
    quality = value("of JPEG, WebP and AVIF, 1 to 100", number(int, 1, 100))
    options = PLACE | ZOOM | PICTURE | DAY | FILE | {"--quality": quality}

    def answer(self, opts: Namespace) -> Answer:
        with self.excerpt(opts) as excerpt:
            path = Path(opts.file or f"{opts.name}-{excerpt.last}.png")
            sheet, background = self.picture_of(opts, excerpt, path)
            store = open_store(self.settings)
            with self.watch(opts) as watch:
                written, damaged = write_mosaic(
                    sheet, path, store, watch, background, quality=opts.quality, most_bytes=opts.max_bytes
                )
        size = f"{sheet.box.width:,} x {sheet.box.height:,} pixels"
        result = {**sheet.as_plain(), "file": str(path), "bytes": written, "damaged": damaged}
        return self.report(result, damaged, f"{path}: {size}, {bytes_in_words(written)}")
