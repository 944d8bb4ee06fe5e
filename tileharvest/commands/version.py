"""`tileharvest version`: the version of TileHarvest, and those of Scrapy and its libraries with `-v`."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version

from scrapy.commands import version as scrapys

from tileharvest.commands.terminal import write_error, write_line
from tileharvest.errors import ExitStatus, program


class Command(scrapys.Command):
    def short_desc(self) -> str:
        return "Show the version of TileHarvest and of Scrapy"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            write_error(f"write {program()} version [-v]")
            sys.exit(ExitStatus.USAGE)
        write_line(f"TileHarvest {version('tileharvest')}")
        super().run(args, opts)
