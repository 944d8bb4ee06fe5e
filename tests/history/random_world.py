"""A random history together with what is true of it, as plain dictionaries."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from random import Random

from msgspec.structs import replace

from tests.history.making import TileResult, found, record
from tileharvest.history.database import History
from tileharvest.history.harvests import begin
from tileharvest.history.outlines import map_outline
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid

Opening = Callable[[str], AbstractContextManager["History"]]
"""Opens a new history in a database of the kind that is named, for as long as a block lasts."""
FIRST = date(2021, 2, 13)
DAYS = 40
HARVESTS = 30
ZOOMS = (0, -1, -2, -5)
LAYERS = ("day", "night")
MAP = "world"


@dataclass
class World:
    """Versions by layer and tile, and by day; an image's name, or None where the tile is gone."""

    history: History
    random: Random
    versions: defaultdict[tuple[str, Tile], dict[date, str | None]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    ids: dict[str, int] = field(default_factory=dict)

    def of(self, layer: str, zoom: int) -> dict[Tile, dict[date, str | None]]:
        return {tile: of for (name, tile), of in self.versions.items() if name == layer and tile.zoom == zoom}

    def harvest(self, day: date, segment: str) -> None:
        harvest = begin(
            self.history,
            map_name=MAP,
            segment=segment,
            day=day,
            started=datetime(day.year, day.month, day.day, 6, tzinfo=UTC),
            renderer="overviewer",
            layers=[Layer(layer, Pyramid(8), "png") for layer in LAYERS],
        )
        results = [result for layer in LAYERS for zoom in ZOOMS for result in self._results(layer, zoom, day)]
        for start in range(0, len(results), 50):
            record(harvest, results[start : start + 50])
        settled = self.random.random() < 0.8
        harvest.finish(datetime(2022, 1, 1, tzinfo=UTC), "finished" if settled else "moved")
        for result in results:
            if result.image is not None:
                name = f"{result.image.sha1}.{result.image.extension}"
                self.versions[result.layer, result.tile][day] = name
            elif result.outcome is Outcome.GONE and settled:
                self.versions[result.layer, result.tile][day] = None

    def _results(self, layer: str, zoom: int, day: date) -> list[TileResult]:
        unit = 1 << -zoom
        results = []
        for _ in range(self.random.choice([0, 3, 60])):
            tile = Tile(zoom, *(unit * (2 * self.random.randint(-12, 11) + 1) for _ in range(2)))
            result = found(self._outcome(layer, tile, day), tile, self.random.randbytes(4))
            results.append(replace(result, layer=layer))
        return list({result.tile: result for result in results}.values())

    def _outcome(self, layer: str, tile: Tile, day: date) -> Outcome:
        versions = self.versions.get((layer, tile), {})
        last = max(versions, default=None)
        if last is None or versions[last] is None:
            return self.random.choice([Outcome.ADDED, Outcome.ADDED, Outcome.NOTHING, Outcome.FAILED])
        changed = Outcome.REPLACED if last == day else Outcome.UPDATED
        return self.random.choice([changed, changed, changed, Outcome.GONE, Outcome.NOT_MODIFIED])


def random_world(history: History, seed: int) -> World:
    world = World(history, Random(seed))
    for number in range(HARVESTS):
        day = FIRST + timedelta(days=number * DAYS // HARVESTS // 2 * 2)
        world.harvest(day, str(number))
    world.ids = {layer.name: layer.id for layer in map_outline(history, MAP).layers}
    return world


def any_area(random: Random, zoom: int, most: int = 20) -> TileRange:
    """Anywhere on the map or partly beside it, up to so many tiles wide and high."""
    unit = 1 << -zoom
    width, height = random.randint(1, most), random.randint(1, most)
    x, y = (unit * (2 * random.randint(-14, 12) + 1) for _ in range(2))
    return TileRange(zoom, x, x + 2 * unit * (width - 1), y, y + 2 * unit * (height - 1))


def any_day(random: Random) -> date:
    """From before the first harvest to after the last."""
    return FIRST + timedelta(days=random.randint(-2, DAYS + 2))
