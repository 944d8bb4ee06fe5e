"""A program for test_kill: puts images and records them until it is killed.

Arguments: the database's URL and the store's folder. It writes a line when it begins, and one for each
batch that is durable, with the highest number recorded.
"""

import sys
from itertools import count
from pathlib import Path
from random import Random

from tests.history.making import EVERYWHERE, began, found, record
from tileharvest.history.costs import Cost
from tileharvest.history.database import History
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile

BATCH = 7
IMAGES = 40
"""Fewer than tiles: as on real maps the same image comes again and again."""


def main(url: str, folder: str) -> None:
    say(0)
    history = History.open(url)
    store = FileStore(Path(folder))
    harvest = began(history)
    random = Random(harvest.known(EVERYWHERE))
    for first in count(harvest.known(EVERYWHERE), BATCH):
        results = [
            found("add", tile(number), random.randrange(IMAGES).to_bytes() * 5000)
            for number in range(first, first + BATCH)
        ]
        for result in results:
            store.put({result.image: result.body})
        record(harvest, results, Cost(requests=2 * BATCH))
        say(first + BATCH)


def tile(number: int) -> Tile:
    """The layer has a million: however late the kill comes, each lies within it."""
    column, row = divmod(number, 512)
    return Tile(0, 2 * column + 1, 2 * row + 1)


def say(durable: int) -> None:
    sys.stdout.write(f"{durable}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
