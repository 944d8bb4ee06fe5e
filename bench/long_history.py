"""A long history: a map that changes day after day, whose versions are written into their table directly.

A few places change all the time, and with a changed tile all tiles above it. The same number of versions
always gives the same history.
"""

from __future__ import annotations

import io
import itertools
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from PIL import Image
from sqlalchemy import func, insert, select, update

from bench.site import LAYER, TILE_SIZE, config
from tileharvest.history.blocks import WRITE_VERSIONS
from tileharvest.history.database import History
from tileharvest.history.imported_day import ImportedDay, ImportedTile, record_day
from tileharvest.history.schema import BLOCK_LEVELS, TILE, changes, is_same_tile, tiles, version_row, versions
from tileharvest.history.site_files import SiteFile
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import tile_at
from tileharvest.tiles.images import identify
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.versions import Validator, Version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sqlalchemy import Connection

MAP: Final = "bench"
DAYS: Final = tuple(date(2024, 1, 1) + timedelta(days=number) for number in range(325))
_URL: Final = "https://map.example.net/"
_IMAGES: Final = 200
"""The images that differ. To draw them takes longer than to read them."""
_CELLS: Final = 96
"""The squares of one colour along an image's edge: it has about 10 kB."""
_WEIGHTS: Final = (8, 4, 2, 1)
"""How often a changed tile lies in each quarter of the tile above it: a few places change most."""


def make(folder: Path, number: int, depth: int) -> None:
    """Makes a project with a history of about this number of versions, and one for each day at least, in a
    folder, which must not exist."""
    chance = Random(1)  # noqa: S311 - the same history each time
    levels = (itertools.product("0123", repeat=level) for level in range(1, depth + 1))
    paths = list(map("".join, itertools.chain(*levels)))
    folder.mkdir()
    (folder / "maps.toml").write_text(f'[{MAP}]\nurl = "{_URL}"\ntimezone = "UTC"\n')
    bodies = {identify(body): body for body in (terrain(chance) for _ in range(_IMAGES))}
    FileStore(folder / "data" / "tiles").put(bodies)
    images, drawn = list(bodies), {path: order % _IMAGES for order, path in enumerate(paths)}
    places = {path: tile_at(f"/{'/'.join(path)}", depth) for path in paths}
    first = ImportedDay(
        map_name=MAP,
        source="bench",
        day=DAYS[0],
        imported=datetime.now(UTC),
        renderer="overviewer",
        layers=[Layer(LAYER, Pyramid(depth), "png")],
        tiles=[ImportedTile(LAYER, places[path], images[order]) for path, order in drawn.items()],
        files={f"{_URL}overviewerConfig.js": SiteFile(Validator(), config(depth).encode())},
    )

    def change(connection: Connection) -> None:
        a_day = max(1, (number - len(paths)) // (len(DAYS) - 1))
        for harvest, day in enumerate(DAYS[1:], start=2):
            rows = []
            for path in _changed(a_day, depth, chance):
                # Each version of a tile has another image than the one before.
                drawn[path] = (drawn[path] + 1) % _IMAGES
                tile, version = places[path], Version(day, images[drawn[path]])
                rows.append(version_row((1, tile.zoom, tile.x, tile.y), version, harvest))
            WRITE_VERSIONS.execute(connection, rows)
        _follow(connection)

    with History.open(f"sqlite:///{folder / 'data' / 'history.sqlite'}") as history:
        record_day(history, first)
        for day in DAYS[1:]:
            record_day(history, replace(first, day=day, tiles=(), files=None))
        history.write(change)


def _follow(connection: Connection) -> None:
    """Writes what follows from the versions: each tile's latest one, and the counts of changes."""
    made = versions.c
    latest = select(func.max(made.id)).where(is_same_tile(versions, tiles)).scalar_subquery()
    connection.execute(update(tiles).values(version=latest))
    bits = 1 + BLOCK_LEVELS - made.zoom
    x, y = ((one.bitwise_rshift(bits) * 2 + 1).bitwise_lshift(bits - 1) for one in (made.x, made.y))
    place = made.layer, made.zoom, x, y, made.day
    counts = select(*place, func.count()).where(made.day > DAYS[0]).group_by(*place)
    connection.execute(insert(changes).from_select([*TILE, "day", "tiles"], counts))


def _changed(number: int, depth: int, chance: Random) -> Sequence[str]:
    """Returns the paths of about this number of tiles that change together."""
    found: dict[str, None] = {}
    while len(found) < number:
        found |= dict.fromkeys(itertools.accumulate(chance.choices("0123", _WEIGHTS, k=depth)))
    return list(found)


def terrain(chance: Random) -> bytes:
    """Returns the image of a tile with much detail."""
    colours = [chance.randbytes(3) for _ in range(24)]
    pixels = b"".join(chance.choices(colours, k=_CELLS * _CELLS))
    image, body = Image.frombytes("RGB", (_CELLS, _CELLS), pixels), io.BytesIO()
    image.resize((TILE_SIZE, TILE_SIZE), Image.Resampling.NEAREST).save(body, "PNG")
    return body.getvalue()
