"""`tileharvest version`: the version of TileHarvest, and those of Scrapy and its libraries with `-v`."""

from __future__ import annotations

import argparse
from importlib.metadata import version

from scrapy.commands import version as scrapys

from tileharvest.commands.terminal import refuse, write_line
from tileharvest.errors import program


class Command(scrapys.Command):
    def short_desc(self) -> str:
        return "Show the version of TileHarvest and of Scrapy"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            refuse(f"write {program()} version [-v]")
        write_line(f"TileHarvest {version('tileharvest')}")
        super().run(args, opts)
