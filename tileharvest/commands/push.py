"""`tileharvest push NAME TILE|URL...`: put requests into the queue of a map or a spider."""

from __future__ import annotations

from argparse import Namespace
from urllib.parse import quote, urlsplit

from tileharvest.commands.history import parse_tile
from tileharvest.commands.project_command import Answer, ProjectCommand, value
from tileharvest.commands.settings import QueueOwner, queue_owner
from tileharvest.errors import ConfigurationError
from tileharvest.harvest.walks import TILE_MARK
from tileharvest.maps.template import is_address
from tileharvest.queue.codec import VERSION, QueuedRequest, encode
from tileharvest.queue.port import PUSHED, Entry
from tileharvest.tiles.grid import Tile


class Command(ProjectCommand):
    arguments = "NAME TILE|URL..."
    summary = "Put tiles or addresses into the queue of a map or a spider"
    details = "A running harvest or crawl takes them up, or else the next one."
    examples = ("my-server 0_1_1 -3_8_8", "quotes https://example.net/page")
    options = {
        "--priority": value("above 0 it goes first (default: 1)", int, default=1),
    }
    has_json = False

    def answer(self, opts: Namespace) -> Answer:
        owner = queue_owner(self.settings, opts.name)
        entries = []
        for one in opts.tile:
            body = _body(owner, one, opts.priority)
            entries.append(Entry(body, PUSHED, None, opts.priority, slot=urlsplit(one).hostname or ""))
        owner.push(entries)
        words = f"{len(opts.tile)} pushed into the queue of {owner.in_words}: a running {owner.run} takes up"
        return None, [f"{words} what is pushed, or else the next one"]


def _body(owner: QueueOwner, what: str, priority: int) -> bytes:
    """Returns a request as the queue keeps it. Raises ConfigurationError."""
    if owner.description is not None and "://" not in what:
        layer, tile = parse_tile(what)
        # The harvest, which alone has probed the site, knows the address.
        return tile_order(owner, layer or "", tile, priority)
    if not is_address(what):
        raise ConfigurationError(f"'{what}' is not an address: write https://map.example.net/day/0/3.png")
    if owner.description is None:
        # The spider parses the answer like that of its first requests.
        return encode(QueuedRequest(version=VERSION, url=what, priority=priority, dont_filter=True))
    return _order(what, priority)


def tile_order(owner: QueueOwner, layer: str, tile: Tile, priority: int) -> bytes:
    """Returns what asks for a tile of a map. Without a layer it is that of the map's only one."""
    assert owner.description is not None
    return _order(f"{owner.description.page}{TILE_MARK}{quote(layer)}/{tile}", priority)


def _order(url: str, priority: int) -> bytes:
    return encode(
        QueuedRequest(
            version=VERSION,
            kind="BlockRequest",
            url=url,
            method="HEAD",
            callback="answered",
            errback="failed",
            priority=priority,
            dont_filter=True,
            meta={"verbatim_url": True},
        )
    )
