"""`scrapy serve [NAME...]`: look at the history in a browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.utils.log import configure_logging

from tileharvest.commands.map_command import ProjectCommand
from tileharvest.commands.terminal import write_line
from tileharvest.history.settings import open_history_if_any
from tileharvest.maps.settings import maps_file
from tileharvest.queue.settings import workers_on
from tileharvest.scheduler.crawl import relax_garbage_collection
from tileharvest.store.settings import open_store_for_reading

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings


class Command(ProjectCommand, ScrapyCommand):
    form = "[options] [NAME...]"
    summary = "Show maps on every day of their history, in a browser"
    details = (
        "Without names all maps are shown. It only reads, also beside a running"
        " harvest. Anyone who can reach the host and port can look: there are no passwords."
    )
    # The viewer says which names it does not know.
    arguments = range(sys.maxsize)
    log_level = "WARNING"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--port", default="8000", help="where to listen; 0: any free port (default: 8000)"
        )
        parser.add_argument(
            "--host",
            default="127.0.0.1",
            help="0.0.0.0: for everyone (default: 127.0.0.1, this computer alone)",
        )

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        # Scrapy imports all commands whenever it runs one, and a web server takes 0.15 s.
        from tileharvest.viewer.server import (  # noqa: PLC0415
            parse_port,
            serve,
            viewer,
        )

        configure_logging(self.settings)
        port = parse_port(opts.port)
        with viewer(
            maps_file(settings),
            lambda: open_history_if_any(settings),
            open_store_for_reading(settings),
            lambda name: workers_on(settings, name),
            args,
        ) as application:
            relax_garbage_collection(settings)
            serve(application, opts.host, port, _announce)


def _announce(address: str) -> None:
    write_line(f"the viewer is at {address} (Ctrl-C ends it)")
    # A program that reads the output through a pipe waits for this line.
    sys.stdout.flush()
