"""Harvests and loops for tests of what runs around them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, Final

from PIL import Image as Pillow

from tests.history.making import TileResult, found_blocks, image_of, put_empty_history
from tileharvest.harvest.harvest import Harvest
from tileharvest.harvest.holdings import Holdings
from tileharvest.maps.description import MapDescription
from tileharvest.queue.segments import Segment
from tileharvest.renderers.addresses import QuadtreeAddresses
from tileharvest.renderers.site import Site
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.versions import Validator

DAY, LATER = date(2024, 5, 1), date(2024, 5, 2)
NOW = datetime(2024, 5, 2, 6, 30, tzinfo=UTC)
LAYER = "world-day"
HOST = "map.example.net"
SITE = Site(
    "overviewer",
    (
        Layer(
            LAYER,
            Pyramid(2),
            "png",
            QuadtreeAddresses(f"http://{HOST}/{LAYER}", 2, "png"),
            tile_size=(4, 4),
        ),
    ),
)
ETAG = '"65f1-2a0"'

FIRST_LEVEL: Final = (Tile(-1, -2, 2), Tile(-1, 2, 2), Tile(-1, -2, -2), Tile(-1, 2, -2))
DEEPEST: Final = tuple(Tile(0, x, y) for y in (3, 1, -1, -3) for x in (-3, -1, 1, 3))
ALL: Final = FIRST_LEVEL + DEEPEST
"""Every tile of a layer of depth 2."""


def drawn(name: str) -> bytes:
    """A small PNG that is always the same for a name."""
    buffer = BytesIO()
    Pillow.frombytes("RGB", (4, 4), Random(name).randbytes(48)).save(buffer, "PNG")
    return buffer.getvalue()


def added(tile: Tile, body: bytes | None = None, etag: str = ETAG) -> TileResult:
    body = drawn(str(tile)) if body is None else body
    return TileResult(LAYER, tile, Outcome.ADDED, image=image_of(body), body=body, validator=Validator(etag))


def unopened(folder: Path, day: date = LATER, *, again: bool = False, **keys: Any) -> Harvest:
    """A harvest of that day that is not open yet, of a map that keeps its data in the folder."""
    description = MapDescription(name="small", **{"url": f"http://{HOST}/", **keys})
    holdings = Holdings(f"sqlite:///{folder / 'history.sqlite'}", FileStore(folder / "tiles"))
    begins = datetime(day.year, day.month, day.day, tzinfo=description.zone_info).astimezone(UTC)
    segment = Segment(day.isoformat(), begins, begins + timedelta(days=1))
    return Harvest(description, day=day, segment=segment, again=again, holdings=holdings, clock=lambda: NOW)


@asynccontextmanager
async def opened(
    folder: Path, day: date = LATER, *, site: Site = SITE, **keys: Any
) -> AsyncIterator[Harvest]:
    """An open harvest, left unfinished unless the block finishes it."""
    put_empty_history(folder / "history.sqlite")
    harvest = unopened(folder, day, **keys)
    await harvest.open(site)
    try:
        yield harvest
    finally:
        await harvest.close()


async def keep(harvest: Harvest, results: Sequence[TileResult]) -> None:
    """Keeps the results with what they mean for the walk."""
    for block, there in found_blocks(results):
        images = set(there.images.values())
        await harvest.keep(block, there, {one.image: one.body for one in results if one.image in images})


async def remember(folder: Path, *results: TileResult, day: date = DAY) -> None:
    """A whole harvest of that day with these results."""
    async with opened(folder, day) as harvest:
        await keep(harvest, results)
        await harvest.finish()


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it.

    For code that uses no threads: with a timer set, their results would come too late.
    """

    def __init__(self) -> None:
        super().__init__()
        self.jumped = 0.0
        select = self._selector.select

        def jump(timeout: float | None = None) -> Any:
            self.jumped += max(0.0, timeout or 0.0)
            return select(None if timeout is None else 0)

        self._selector.select = jump

    def time(self) -> float:
        return self.jumped


def run_jumping(coroutine: Any) -> Any:
    """As `asyncio.run`, without waiting for timers."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(coroutine)
