"""`scrapy verify [NAME]`: whether the store holds every image that the history names, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from scrapy.commands import ScrapyCommand

from tileharvest.commands.map_command import MapCommand
from tileharvest.commands.terminal import write_json, write_line, write_table
from tileharvest.errors import ExitStatus, counted
from tileharvest.harvest.inventory import Inventory
from tileharvest.history.settings import open_history_for_reading
from tileharvest.store.settings import open_store_for_reading

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings

    from tileharvest.history.recorded_versions import NamedImage

_SHOWN: Final = 20
"""Lines at most of each kind; `--json` has all."""


class Command(MapCommand, ScrapyCommand):
    form = "[options] [NAME]"
    summary = "Compare history and store, both ways, and list the images that are missing"
    details = (
        "It only reads, also beside a running harvest. Exit status: 0 if nothing"
        " is missing, else 1. Images that no version names do no harm."
    )
    arguments = range(2)
    usage = "scrapy verify, or for one map: scrapy verify NAME"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--bytes", action="store_true", help="also read every image and check its sha1")

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        name = args[0] if args else None
        with open_history_for_reading(settings) as history:
            store = open_store_for_reading(settings)
            found = Inventory.take(history, store, name, reads_bytes=opts.bytes)
        rows = [_plain(named, why) for named, why in found.missing]
        if opts.json:
            write_json({"images": found.images, "missing": rows, "unnamed": found.unnamed})
        else:
            _write(found, rows)
        if found.missing:
            self.exitcode = ExitStatus.ERROR


def _plain(named: NamedImage, why: str) -> dict[str, Any]:
    return {
        "map": named.map_name,
        "layer": named.layer,
        "tile": str(named.tile),
        "day": named.day.isoformat(),
        "image": named.image.file_name,
        "problem": why,
    }


def _write(found: Inventory, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        columns = ["map", "layer", "tile", "first day", "image", "problem"]
        write_table(columns, [list(row.values()) for row in rows[:_SHOWN]])
        write_line("")
    missing = f"{len(found.missing):,} of them are missing or damaged" if found.missing else "all are there"
    write_line(f"the history names {counted(found.images, 'image')}: {missing}")
    if found.missing:
        write_line("restore them from a backup of the store; a harvest fetches only what has changed")
    if found.unnamed:
        write_line(
            f"the store holds {counted(len(found.unnamed), 'image')} that no version names, such as"
            f" {found.unnamed[0]}: a kill leaves such images, and a running harvest has some for a"
            " moment; they do no harm"
        )
