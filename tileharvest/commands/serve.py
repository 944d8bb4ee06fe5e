"""`tileharvest serve [NAME...]`: look at the history in a browser."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from scrapy.settings import BaseSettings
from scrapy.utils.log import configure_logging

from tileharvest.commands.due_maps import dues_of
from tileharvest.commands.project_command import Options, ProjectCommand, value
from tileharvest.commands.terminal import say, write_line
from tileharvest.errors import program
from tileharvest.history.database import History
from tileharvest.history.settings import open_history_if_any
from tileharvest.maps.description import MapDescription
from tileharvest.maps.settings import areas_file, data_folder, maps_file
from tileharvest.pictures.composer import Composer
from tileharvest.queue.settings import workers_on
from tileharvest.spiders.settings import relax_garbage_collection
from tileharvest.store.cache import DiskCache
from tileharvest.store.settings import open_store
from tileharvest.viewer import server
from tileharvest.viewer.application import Application
from tileharvest.viewer.page_files import page_files
from tileharvest.viewer.served_maps import ServedMaps
from tileharvest.viewer.server import parse_ancestors, serve

CACHE_BYTES: Final = 1 << 30
"""The most bytes in the data folder's `cache`: some ten thousand composed pictures."""
_SEVERAL: Final[dict[str, Any]] = {"action": "append", "default": []}
VIEWER: Final[Options] = {
    "--port": value("where the viewer listens; 0: any free port (default: 8000)"),
    "--host": value("0.0.0.0: the viewer is for everyone (default: 127.0.0.1, this computer alone)"),
    "--allow-host": value("another name of the viewer, such as a proxy's; may be repeated", **_SEVERAL),
    "--frame-ancestors": value("a site that may show the map in a frame; may be repeated", **_SEVERAL),
}
"""Where the viewer listens, and the host names and framing pages that it accepts."""


class Command(ProjectCommand):
    arguments = "[NAME...]"
    summary = "Show maps on every day of their history, in a browser"
    details = (
        "Without names all maps are shown. It only reads, also beside a running"
        " harvest. Anyone who can reach the host and port can look: there are no passwords."
    )
    examples = ("", "my-server --port 8080")
    log_level = "WARNING"
    has_json = False
    options = VIEWER

    def answer(self, opts: Namespace) -> None:
        configure_logging(self.settings)
        with viewer_of(self.settings, opts.name, opts.frame_ancestors) as application:
            served = listening(application, opts)
            if not maps_file(self.settings).exists():
                say(f"there is no {maps_file(self.settings)} yet: `{program()} add NAME URL` writes one")
            relax_garbage_collection()
            serve(served)


@contextmanager
def viewer_of(
    settings: BaseSettings, names: Sequence[str], ancestors: Sequence[str] = ()
) -> Iterator[Application]:
    """Opens the viewer of these maps, or of all maps without names, and closes it when the block ends.

    `ancestors` are the sites of `--frame-ancestors`. Raises ConfigurationError and HistoryError.
    """
    store = open_store(settings)
    sites = parse_ancestors(ancestors)
    composer = Composer(store, DiskCache(data_folder(settings) / "cache", CACHE_BYTES))
    served = ServedMaps(
        maps_file(settings),
        areas_file(settings),
        lambda: open_history_if_any(settings),
        partial(workers_on, settings),
        store,
        composer,
        partial(_next_due, settings),
        names,
    )
    with closing(served), closing(Application(served, page_files(), sites)) as application:
        yield application


def _next_due(settings: BaseSettings, description: MapDescription, history: History) -> datetime | None:
    """Returns when a worker begins the map's next harvest, or None if it never does."""
    found = dues_of(settings, history, [description], datetime.now(UTC))
    return found[description.name].moment if found else None


@asynccontextmanager
async def listening(application: Application, opts: Namespace) -> AsyncIterator[None]:
    """Serves the viewer where the options say until the block ends, and says where that is. Raises what the
    server's `listening` raises, and ConfigurationError for a wrong port."""
    host = opts.host or "127.0.0.1"
    port = server.parse_port(opts.port or "8000")
    async with server.listening(application, host, port, opts.allow_host) as address:
        write_line(f"the viewer is at {address} (Ctrl-C ends it)")
        # A program that reads the output through a pipe waits for this line.
        sys.stdout.flush()
        if not server.is_loopback(host):
            everybody = "everybody who reaches this computer sees all that the viewer shows"
            say(f"warning: {everybody}; it has no passwords")
        yield
