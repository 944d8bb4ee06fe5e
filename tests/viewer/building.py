"""A history and a store for the viewer, and what must be seen in them."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from hashlib import sha1
from typing import Final, NamedTuple

from PIL import Image as Pillow

from tests.end_to_end.project import Project
from tests.history.making import TileResult, put_empty_history, record
from tileharvest.history.costs import Cost
from tileharvest.history.database import History
from tileharvest.history.harvests import HarvestRecord, begin
from tileharvest.renderers.overviewer import projection_of
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.versions import Image, Validator

FIRST: Final = date(2021, 2, 13)
SECOND: Final = date(2021, 2, 16)
THIRD: Final = date(2021, 5, 12)
MAP: Final = "world"
DAY_LAYER: Final = "day"
NIGHT_LAYER: Final = "night"
SIZE: Final = 8
"""Pixels of a tile's width and height."""
IN_BLOCKS: Final = Layer(
    DAY_LAYER,
    Pyramid(5),
    "png",
    tile_size=(64, 64),
    projection=Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0)),
)
"""A tile is 16 x 16 blocks, of 4 pixels each."""
URL: Final = "https://map.example.net/world/"
MODIFIED: Final = "Sat, 13 Feb 2021 06:00:00 GMT"

RED: Final = (255, 0, 0, 255)
GREEN: Final = (0, 255, 0, 255)
BLUE: Final = (0, 0, 255, 255)


def picture(colour: tuple[int, int, int, int] = RED, size: int = SIZE, height: int | None = None) -> bytes:
    """A PNG of one colour, `size` wide: a square where no height is named."""
    return as_png(Pillow.new("RGBA", (size, height or size), colour))


def as_png(image: Pillow.Image) -> bytes:
    body = io.BytesIO()
    image.save(body, "PNG")
    return body.getvalue()


def name_of(body: bytes, extension: str = "png") -> str:
    return f"{sha1(body).hexdigest()}.{extension}"


class Recorded(NamedTuple):
    """One version that was recorded."""

    day: date
    image: str | None


@dataclass(frozen=True, slots=True)
class World(Project):
    """A user's project, and what was recorded in its history."""

    recorded: dict[tuple[str, str, Tile], dict[date, str | None]] = field(default_factory=dict)
    """The name of the image by map, layer and tile, and then by day."""

    @property
    def store(self) -> FileStore:
        return FileStore(self.data / "tiles")

    def describe(self, name: str = MAP, note: str = "ours", url: str = URL) -> None:
        """Append an entry to `maps.toml`."""
        self.add_map(name, url, note=note)

    def harvest(
        self,
        day: date,
        found: Mapping[Tile, bytes | None],
        *,
        name: str = MAP,
        layer: str = DAY_LAYER,
        finished: bool = True,
        described: Layer | None = None,
        extension: str = "png",
        renderer: str = "overviewer",
    ) -> None:
        """A harvest of that day with new images of tiles; None: the tile is gone."""
        put_empty_history(self.database)
        with History.open(f"sqlite:///{self.database}") as history:
            harvest = begun(history, day, name, described, renderer)
            results = [self._result(name, layer, tile, day, body, extension) for tile, body in found.items()]
            bodies = [(one.image, one.body) for one in results if one.image and one.body]
            stored = sum(len(body) for image, body in bodies if self.store.put({image: body}))
            record(harvest, results, Cost(2 * len(results), 100 * len(results), stored))
            if finished:
                ended = datetime.combine(day, time(7), UTC)
                harvest.finish(ended, "finished")

    def shown(self, tile: Tile, day: date, layer: str = DAY_LAYER, name: str = MAP) -> Recorded | None:
        """What a tile is on a day, by its definition."""
        until = [each for each in self.versions(tile, layer, name) if each.day <= day]
        return until[-1] if until else None

    def versions(self, tile: Tile, layer: str = DAY_LAYER, name: str = MAP) -> list[Recorded]:
        """Of a day the last one recorded."""
        return [Recorded(*one) for one in sorted(self.recorded.get((name, layer, tile), {}).items())]

    def _result(
        self, name: str, layer: str, tile: Tile, day: date, body: bytes | None, extension: str
    ) -> TileResult:
        before = self.shown(tile, day, layer, name)
        image = None if body is None else Image(sha1(body).hexdigest(), extension, len(body))
        self.recorded.setdefault((name, layer, tile), {})[day] = (
            None if body is None else name_of(body, extension)
        )
        if image is None:
            return TileResult(layer, tile, Outcome.GONE)
        outcome = Outcome.UPDATED if before and before.image else Outcome.ADDED
        if before is not None and before.day == day:
            outcome = Outcome.REPLACED
        return TileResult(layer, tile, outcome, image, body, Validator('"1"', MODIFIED))


def begun(
    history: History,
    day: date,
    name: str = MAP,
    described: Layer | None = None,
    renderer: str = "overviewer",
) -> HarvestRecord:
    """With two layers, unless one is given."""
    size, projection = (SIZE, SIZE), projection_of(SIZE, 0)
    site = Layer(DAY_LAYER, Pyramid(10), "png", tile_size=size, world="overworld", projection=projection)
    both = [site, replace(site, name=NIGHT_LAYER)]
    return begin(
        history,
        map_name=name,
        segment=day.isoformat(),
        day=day,
        started=datetime.combine(day, time(6), UTC),
        renderer=renderer,
        layers=both if described is None else [described],
    )


def square(zoom: int, columns: int, left: int = 0, bottom: int = 0) -> list[Tile]:
    """columns x columns tiles of a zoom, from the tile in that column and row to the right and upwards."""
    unit = 1 << -zoom
    return [
        Tile(zoom, (2 * (left + column) + 1) * unit, (2 * (bottom + row) + 1) * unit)
        for column in range(columns)
        for row in range(columns)
    ]
