"""`scrapy serve [NAME...]`: look at the history in a browser."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

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
    from collections.abc import Iterator, Sequence

    from scrapy.settings import BaseSettings

    from tileharvest.viewer.application import Application

HOST: Final = "127.0.0.1"
PORT: Final = "8000"
"""Where the viewer listens unless somebody says otherwise."""


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
        parser.add_argument("--port", default=PORT, help="where to listen; 0: any free port (default: 8000)")
        parser.add_argument(
            "--host",
            default=HOST,
            help="0.0.0.0: for everyone (default: 127.0.0.1, this computer alone)",
        )

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        # Scrapy imports all commands whenever it runs one, and a web server takes 0.15 s.
        from tileharvest.viewer.server import parse_port, serve  # noqa: PLC0415

        configure_logging(self.settings)
        port = parse_port(opts.port)
        with viewer_of(settings, args) as application:
            relax_garbage_collection(settings)
            serve(application, opts.host, port, announce)


@contextmanager
def viewer_of(settings: BaseSettings, names: Sequence[str]) -> Iterator[Application]:
    """Makes the viewer of these maps, or of all, and closes it when the block ends. Raises
    TileHarvestError."""
    from tileharvest.viewer.server import viewer  # noqa: PLC0415

    with viewer(
        maps_file(settings),
        lambda: open_history_if_any(settings),
        open_store_for_reading(settings),
        lambda name: workers_on(settings, name),
        names,
    ) as application:
        yield application


def announce(address: str) -> None:
    """Says where the viewer is."""
    write_line(f"the viewer is at {address} (Ctrl-C ends it)")
    # A program that reads the output through a pipe waits for this line.
    sys.stdout.flush()
