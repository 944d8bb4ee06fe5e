"""`tileharvest diff NAME DAY1 DAY2 [FILE...]`: what has changed on a map between two days."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

from tileharvest.commands.export_command import FILE, PICTURE, PLACE, ZOOM, ExportCommand
from tileharvest.commands.project_command import Answer
from tileharvest.commands.terminal import say
from tileharvest.errors import ExitStatus
from tileharvest.export.difference import LISTS, all_differences, changed_pixels, write_difference, write_list
from tileharvest.export.excerpt import Excerpt
from tileharvest.export.mosaic import format_of
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.pictures.pixels import UNREADABLE
from tileharvest.store.port import TileStore
from tileharvest.store.settings import open_store


class Command(ExportCommand):
    arguments = "NAME DAY1 DAY2 [FILE...]"
    summary = "Show what changed between two days, as a picture and a list"
    details = (
        "A FILE that ends with .png, .jpg, .webp, .avif or .tif is a picture: what has changed in its"
        " colours, all else faded, new and gone tiles outlined. One that ends with .json or .csv is"
        " a list of the changed tiles with their blocks. Without a FILE it says how many there are."
    )
    examples = ("my-server 2026-11-01 2026-12-01", "my-server 2026-11-01 2026-12-01 new.png new.csv")
    options = PLACE | ZOOM | PICTURE | FILE

    def answer(self, opts: Namespace) -> Answer:
        opts.first, opts.day = opts.day1, opts.day2
        paths = [Path(one) for one in opts.file]
        pictures = [path for path in paths if path.suffix.lower() not in LISTS]
        for path in pictures:
            format_of(path)
        with self.excerpt(opts) as excerpt:
            # All pictures are planned before the first file, so that a mistake leaves no file.
            store = open_store(self.settings)
            drawn = {path: self.picture_of(opts, excerpt, path) for path in pictures}
            counts = Counter(one.change for one in all_differences(excerpt))
            pixels = self._pixels(excerpt, store) if opts.json and excerpt.described.depth == 1 else {}
            files: list[dict[str, Any]] = []
            for place, path in enumerate(paths):
                with self.watch(opts, paths[:place]) as watch:
                    if path not in drawn:
                        size = write_list(excerpt, path, watch, opts.max_bytes)
                        files.append({"file": str(path), "bytes": size})
                        continue
                    sheet, background = drawn[path]
                    size, damaged = write_difference(
                        sheet, path, store, watch, background, most_bytes=opts.max_bytes
                    )
                    shape = {"width": sheet.box.width, "height": sheet.box.height, "zoom": sheet.zoom}
                    files.append({"file": str(path), "bytes": size, **shape, "damaged": damaged})
        found = ", ".join(f"{number:,} {change}" for change, number in sorted(counts.items()))
        words = f"{excerpt.in_words()}: {found or 'no tile is another one'}"
        days = {"first": excerpt.first.isoformat(), "last": excerpt.last.isoformat()}
        result = {"map": opts.name, "layer": excerpt.layer.name, **days, **counts, **pixels, "files": files}
        sizes = (f"{file['file']}: {bytes_in_words(file['bytes'])}" for file in files)
        return self.report(result, sum(file.get("damaged", 0) for file in files), words, *sizes)

    def _pixels(self, excerpt: Excerpt, store: TileStore) -> dict[str, Any]:
        """Returns the changed pixels of a canvas for programs."""
        try:
            count, box = changed_pixels(excerpt, store)
        except UNREADABLE as error:
            self.exitcode = ExitStatus.FAILED_TILES
            say(f"the changed pixels are not counted, because an image cannot be read: {error}")
            return {}
        return {"pixels": count, "box": box}
