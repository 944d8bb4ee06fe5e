"""A made-up history for the viewer: a map harvested day after day, in which a few places change all the time.

The same number of versions always gives the same history. It is written in bulk, but as the recorder would
have left it: day by day, coarse levels first, and with a changed tile all its ancestors change. No tile is
ever gone.
"""

from __future__ import annotations

import io
import math
import sqlite3
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from hashlib import sha1
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from PIL import Image as Pillow
from sqlalchemy import create_engine, func, insert, select, text

from bench.cost import RunFailedError
from bench.site import LAYER, TILE_SIZE
from tileharvest.history.blocks import write_present
from tileharvest.history.database import History
from tileharvest.history.harvest_row import Beginning
from tileharvest.history.schema import BLOCK_LEVELS, FINISHED, changes, harvest_counts, tiles, versions
from tileharvest.store.files import FileStore
from tileharvest.tiles.block import blocks_of
from tileharvest.tiles.grid import Tile, first_level
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.versions import Image

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sqlalchemy import Connection

Branches: TypeAlias = list[tuple[float, tuple[int, ...]]]
"""For each tile of zoom 0 its chance to change on a day, and the numbers of the tile and its ancestors."""
Changed: TypeAlias = "Iterator[tuple[date, list[int]]]"
"""The days, each with the numbers of the tiles that changed."""

MAP: Final = "bench"
DEEPEST: Final = "deepest"
"""A small map of which only zoom 0 is kept, so that its coarser levels are composed."""
DEEPEST_WIDTH: Final = 32
DEPTH: Final = 8
FIRST_DAY: Final = date(2024, 1, 1)
IMAGES: Final = 400
"""The number of different images in the store. Each version has another image than the version before it."""

_SEED: Final = 20_240_101
_RADIUS: Final = 69.0
"""The map's radius in tiles of zoom 0. The square of 256 x 256 then has some 15,000 tiles of them, and some
20,000 together with their ancestors."""
_TOWNS: Final = 18
_ANYWHERE: Final = 0.003
"""The chance that a tile far from every town changes on a day."""


@dataclass(frozen=True, slots=True)
class ViewedHistory:
    """A history as it was written."""

    data: Path
    """The data folder, with history and store."""
    days: tuple[date, ...]
    tiles: tuple[Tile, ...]
    """The tiles of the large map, coarse ones first."""
    images: tuple[Image, ...]

    @property
    def database(self) -> Path:
        return self.data / "history.sqlite"


def generate(data: Path, count: int) -> ViewedHistory:
    """Writes a history with this many versions of the large map, and a store. `data` must not exist.

    A million versions take half a minute. Raises ValueError for fewer versions than the large map has tiles.
    """
    random = Random(_SEED)  # noqa: S311 - nothing here is secret
    places, branches = _world(random)
    if count < len(places):
        raise ValueError(f"{count} versions are too few for {len(places)} tiles on the first day")
    images = tuple(_store_images(data / "tiles", random))
    database = data / "history.sqlite"
    # The first `open` makes the tables as every history's are; the second one switches to write-ahead.
    History.open(f"sqlite:///{database}").close()
    days = _write(database, images, places, _changed(len(places), branches, random, count))
    History.open(f"sqlite:///{database}").close()
    return ViewedHistory(data, tuple(days), places, images)


def _world(random: Random) -> tuple[tuple[Tile, ...], Branches]:
    """Returns the map's tiles, coarse ones first, and how often they change."""
    places = sorted(_ground(random))
    every = sorted({tile.ancestor(levels) for tile in places for levels in range(DEPTH)})
    numbers = {tile: number for number, tile in enumerate(every)}
    # Each town has a middle, a width, and its activity in the middle. The first towns are the most active.
    towns = [(random.choice(places), random.uniform(2, 11), 1 / (1 + n / 8)) for n in range(_TOWNS)]
    branches = [
        (_chance(tile, towns), tuple(numbers[tile.ancestor(levels)] for levels in range(DEPTH)))
        for tile in places
    ]
    return tuple(every), branches


def _ground(random: Random) -> Iterator[Tile]:
    """Yields the tiles of zoom 0 within an uneven coast."""
    turns = [(waves, random.uniform(0, math.tau)) for waves in (2, 3, 5, 7)]
    centres = range(1 - 2**DEPTH, 2**DEPTH, 2)
    for x, y in ((x, y) for x in centres for y in centres):
        coast = 1 + sum(math.sin(waves * math.atan2(y, x) + turn) / (10 * waves) for waves, turn in turns)
        if math.hypot(x, y) < 2 * _RADIUS * coast:
            yield Tile(0, x, y)


def _chance(tile: Tile, towns: Sequence[tuple[Tile, float, float]]) -> float:
    stays = 1 - _ANYWHERE
    for town, width, activity in towns:
        distance = math.hypot(tile.x - town.x, tile.y - town.y) / 2
        stays *= 1 - activity * math.exp(-((distance / width) ** 2))
    return 1 - stays


def _store_images(folder: Path, random: Random) -> Iterator[Image]:
    store = FileStore(folder)
    for _ in range(IMAGES):
        body = _picture(random)
        image = Image(sha1(body, usedforsecurity=False).hexdigest(), "png", len(body))
        store.put({image: body})
        yield image


def _picture(random: Random) -> bytes:
    """Returns a PNG as large as those of renderers: 30 to 120 kB."""
    width, size = random.randint(60, 135), (TILE_SIZE, TILE_SIZE)
    noise = Pillow.frombytes("RGB", (width, width), random.randbytes(3 * width * width))
    slope = Pillow.linear_gradient("L").resize(size).convert("RGB")
    # The noise is enlarged without smoothing, so that it packs to about its small size.
    blended = Pillow.blend(noise.resize(size, Pillow.Resampling.NEAREST), slope, 0.25)
    blended.convert("RGBA").save(file := io.BytesIO(), "PNG", compress_level=1)
    return file.getvalue()


def _changed(known: int, branches: Branches, random: Random, count: int) -> Changed:
    """Yields days until there are so many versions. On the first day all `known` tiles change."""
    day, left = FIRST_DAY, count - known
    yield day, list(range(known))
    while left:
        day += timedelta(days=1)
        busy = random.uniform(0.5, 1.5)
        chosen = (branch for chance, branch in branches if random.random() < chance * busy)
        # Coarse tiles come first, so that even on the last day no tile changes without its ancestors.
        numbers = sorted({number for branch in chosen for number in branch})[:left]
        left -= len(numbers)
        yield day, numbers


def _write(file: Path, images: Sequence[Image], places: Sequence[Tile], changed: Changed) -> list[date]:
    days = list[date]()
    engine = create_engine(f"sqlite:///{file}", creator=lambda: _in_bulk(file))
    with engine.begin() as connection:
        large = _MapWriter(connection, MAP, places, images)
        for day, numbers in changed:
            large.write_day(day, numbers)
            days.append(day)
        large.write_tiles()
        centres = range(1 - DEEPEST_WIDTH, DEEPEST_WIDTH, 2)
        small = _MapWriter(connection, DEEPEST, [Tile(0, x, y) for x in centres for y in centres], images)
        small.write_day(FIRST_DAY, list(range(DEEPEST_WIDTH**2)))
        # A map's days before the last one can change no more, so their tiles are composed once for ever.
        small.write_day(FIRST_DAY + timedelta(days=1), [0])
        small.write_tiles()
        _check(connection)
    engine.dispose()
    return days


def _in_bulk(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file)
    # The cache has 512 MB: the rows of a day go all over the index of versions, and so no page is read twice.
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -524288"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


class _MapWriter:
    """A writer of the rows of a map with one layer, in the order in which harvests write them."""

    def __init__(
        self, connection: Connection, name: str, places: Sequence[Tile], images: Sequence[Image]
    ) -> None:
        self._connection = connection
        self._name = name
        self._layer = 0
        self._harvest = 0
        self._change = Outcome.ADDED
        self._places = places
        self._blocks = [(tile.zoom, (block := tile.ancestor(BLOCK_LEVELS)).x, block.y) for tile in places]
        self._nothing = _asked_in_vain(places)
        self._images = images
        self._written = connection.execute(select(func.count()).select_from(versions)).scalar_one()
        self._latest = [0] * len(places)
        self._changed = [0] * len(places)

    def write_day(self, day: date, numbers: Sequence[int]) -> None:
        self._change = Outcome.UPDATED if self._harvest else Outcome.ADDED
        self._write_harvest(day)
        self._write_counts(len(numbers))
        self._connection.execute(insert(versions), [self._version(number, day) for number in numbers])
        blocks = Counter(self._blocks[number] for number in numbers)
        changed = ({"zoom": zoom, "x": x, "y": y, "tiles": n} for (zoom, x, y), n in blocks.items())
        of_day = {"layer": self._layer, "day": day}
        self._connection.execute(insert(changes), [{**of_day, **row} for row in changed])

    def write_tiles(self) -> None:
        """Writes which versions are the latest ones, and which tiles are present."""
        latest = zip(self._places, self._latest, strict=True)
        self._connection.execute(insert(tiles), [self._tile(tile, version) for tile, version in latest])
        for block in blocks_of(LAYER, self._places):
            write_present(self._connection, self._layer, block)

    def _write_harvest(self, day: date) -> None:
        connection, started = self._connection, datetime.combine(day, time(6), UTC)
        layer = Layer(LAYER, Pyramid(DEPTH), "png", rendered=_seconds(day))
        beginning = Beginning(self._name, day.isoformat(), day, started, "overviewer", [layer])
        row, layer_ids = beginning(connection)
        self._harvest, self._layer = row.id, layer_ids[LAYER]
        # This counts nothing, because the map's tiles are written last: `_write_counts` counts.
        row.end(connection, started + timedelta(minutes=1), FINISHED)

    def _write_counts(self, changed: int) -> None:
        of_harvest = {"harvest": self._harvest, "layer": self._layer}
        unchanged = len(self._places) - changed
        found = {Outcome.NOTHING: len(self._nothing), Outcome.IGNORED: unchanged, self._change: changed}
        rows = [{**of_harvest, "outcome": outcome, "tiles": n} for outcome, n in found.items() if n]
        self._connection.execute(insert(harvest_counts), rows)

    def _version(self, number: int, day: date) -> dict[str, Any]:
        self._written += 1
        self._latest[number] = self._written
        self._changed[number] += 1
        tile, image = self._places[number], self._images[(7 * number + self._changed[number]) % IMAGES]
        return {
            "id": self._written,
            "layer": self._layer,
            "zoom": tile.zoom,
            "x": tile.x,
            "y": tile.y,
            "day": day,
            "sha1": image.sha1,
            "extension": image.extension,
            "size": image.size,
            "etag": f'"{_seconds(day):x}-{image.size:x}"',
            "last_modified": f"{day:%a, %d %b %Y} 02:00:00 GMT",
            "harvest": self._harvest,
        }

    def _tile(self, tile: Tile, version: int) -> dict[str, Any]:
        return {"layer": self._layer, "zoom": tile.zoom, "x": tile.x, "y": tile.y, "version": version}


def _seconds(day: date) -> int:
    """Returns when the site rendered on that day, in seconds since 1970."""
    return int(datetime.combine(day, time(2), UTC).timestamp())


def _asked_in_vain(places: Sequence[Tile]) -> set[Tile]:
    """Returns the tiles that a walk asks for in vain: it asks for all four below each tile that exists."""
    asked = {child for tile in places if tile.zoom < 0 for child in tile.children()}
    return (asked | set(first_level(DEPTH))).difference(places)


_STRAY_BLOCKS: Final = """
    SELECT count(*) FROM (
        SELECT layer, zoom, x, y, day, tiles FROM changes EXCEPT
        SELECT layer, zoom, (x >> 4 - zoom << 4 - zoom) + (8 << -zoom),
            (y >> 4 - zoom << 4 - zoom) + (8 << -zoom), day, count(*)
        FROM versions GROUP BY 1, 2, 3, 4, 5
    )
"""


def _check(connection: Connection) -> None:
    """Raises RunFailedError unless `changes` is as the recorder keeps it: no figure would count otherwise."""
    known = connection.execute(select(func.count()).select_from(versions)).scalar_one()
    counted = connection.execute(select(func.sum(changes.c.tiles))).scalar_one()
    # Each version belongs to one block. No block has a wrong count and the sum is right: so none is missing.
    if counted != known or connection.execute(text(_STRAY_BLOCKS)).scalar_one():
        raise RunFailedError("in the made-up history `changes` does not count its versions")
