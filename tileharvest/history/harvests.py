"""One harvest of one map, as the history sees it: begun or continued, recorded, ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileharvest.history import beginning, ending
from tileharvest.history.areas import count_present, count_vanished, latest_versions, unasked_tiles
from tileharvest.history.recording import Recorder, add_cost
from tileharvest.outcomes import Outcome
from tileharvest.versions import EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date, datetime

    from tileharvest.history.beginning import HarvestRow
    from tileharvest.history.database import History
    from tileharvest.items import TileResult
    from tileharvest.maps.grid import Tile, TileRange
    from tileharvest.versions import Version


@dataclass(frozen=True, slots=True)
class HarvestLayer:
    """What the site says about a layer on the day of the harvest."""

    name: str
    depth: int
    """At least 1."""
    image_extension: str
    tile_size: int = 384
    """Width and height of an image in pixels."""
    north_direction: int = 0
    """Quarter turns: 0 is north at the upper left, as Overviewer counts."""
    world: str | None = None
    background: str | None = None
    """A colour, as the site writes it."""
    spawn: tuple[int, int, int] | None = None
    """x, y and z in blocks."""
    rendered: int | None = None
    """When the site was rendered, in seconds since 1970."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a layer has a name")
        if self.depth < 1:
            raise ValueError(f"layer '{self.name}': a depth of {self.depth} leaves no tiles")
        if self.image_extension not in EXTENSIONS:
            raise ValueError(f"layer '{self.name}': '{self.image_extension}' is no image extension")
        if self.tile_size < 1:
            raise ValueError(f"layer '{self.name}': a tile of {self.tile_size} pixels is none")
        if self.north_direction not in range(4):
            raise ValueError(f"layer '{self.name}': north direction {self.north_direction} is not 0 to 3")


class Harvest:
    """An unfinished harvest. Get it from `begin`.

    One thread may record while another looks up versions. Every method raises HistoryError when the
    database refuses, and ValueError for a layer that the harvest does not have.
    """

    def __init__(
        self, history: History, row: HarvestRow, layer_ids: Mapping[str, int], map_name: str, segment: str
    ) -> None:
        self._history = history
        self._layer_ids = dict(layer_ids)
        self._recorder = Recorder(history.dialect, row.id, row.day, self._layer_ids)
        self.id = row.id
        self.map_name = map_name
        self.segment = segment
        self.day = row.day
        """Of all versions it records: the day on which it began, also when it is continued later."""
        self.continued = row.continued

    def record(
        self,
        results: Sequence[TileResult],
        requests: int = 0,
        received_bytes: int = 0,
        stored_bytes: int = 0,
    ) -> None:
        """Records a batch, and what it cost, in one transaction that is durable on return.

        Recording a result again changes nothing; costs add up. Of several results for a tile the one
        that says most is kept. `gone` makes no version before `finish`. Costs about 10 microseconds of
        CPU per unchanged tile in batches of 200, 40 per changed one, plus one disk flush, however large
        the history is. `stored_bytes` are those of images that were put into the store and were new to
        it. Raises HistoryError when the harvest has ended.
        """
        with self._history.writing() as connection:
            if connection.execute(add_cost(self.id, requests, received_bytes, stored_bytes)).rowcount == 0:
                raise ending.already_ended(self.id)
            self._recorder.record(connection, results)

    def latest(self, layer: str, area: TileRange) -> dict[Tile, Version]:
        """The latest version of each tile in the area that has any; `gone` ones too. One query.

        Made for blocks of neighbours. Nothing provisional is in it.
        """
        layer_id = self._id_of(layer)
        with self._history.reading() as connection:
            return latest_versions(connection, layer_id, area)

    def known(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """How many tiles of these areas exist, by their latest versions; each counts once.

        Areas are given by layer, and may overlap. Reads all tiles of the areas.
        """
        with self._history.reading() as connection:
            return sum(count_present(connection, layer, ranges) for _, layer, ranges in self._by_id(areas))

    def unasked(self, areas: Mapping[str, Sequence[TileRange]], limit: int) -> list[tuple[str, Tile]]:
        """Up to `limit` tiles that exist by their latest version and have no result in this harvest."""
        found: list[tuple[str, Tile]] = []
        with self._history.reading() as connection:
            for name, layer, ranges in self._by_id(areas):
                missing = limit - len(found)
                if missing <= 0:
                    break
                tiles = unasked_tiles(connection, self.id, layer, ranges, missing)
                found += [(name, tile) for tile in tiles]
        return found

    def vanished(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """How many of the `known` tiles this harvest found gone, or has not asked.

        Not asked are also those below a tile that is gone. To be compared with `known` before `finish`:
        when most tiles have vanished it is the map that has moved.
        """
        with self._history.reading() as connection:
            return sum(
                count_vanished(connection, self.id, layer, ranges) for _, layer, ranges in self._by_id(areas)
            )

    def counts(self) -> dict[Outcome, int]:
        """Tiles per outcome so far; only outcomes that occurred. Provisional `gone` ones count.

        Exact, whatever was recorded twice. Reads all tiles of the map: meant for once in a while.
        """
        counted: dict[Outcome, int] = {}
        with self._history.reading() as connection:
            for row in connection.execute(ending.count_outcomes(self.id)):
                outcome = Outcome(row.outcome)
                counted[outcome] = counted.get(outcome, 0) + row.tiles
        return counted

    def finish(self, ended: datetime, reason: str, *, settle_gone: bool) -> None:
        """Ends the harvest: counts, end and versions of gone tiles, in one transaction.

        With `settle_gone` each tile found gone gets a version without image, in place of one of the same
        day. Without it nothing remains of their being gone: not in the counts, and their tiles count as
        not asked. The caller decides which, by `vanished`. `ended` must have a time zone; `reason` is a
        word such as `finished` or `moved`. Raises HistoryError when the harvest has ended already.
        """
        history = self._history
        with history.writing() as connection:
            if settle_gone:
                ending.end_and_settle(connection, history.dialect, self.id, ended, reason)
            else:
                ending.end_and_take_back(connection, self.id, ended, reason)

    def _id_of(self, layer: str) -> int:
        if layer not in self._layer_ids:
            raise ValueError(f"layer '{layer}' does not belong to this harvest")
        return self._layer_ids[layer]

    def _by_id(
        self, areas: Mapping[str, Sequence[TileRange]]
    ) -> Iterator[tuple[str, int, Sequence[TileRange]]]:
        return ((layer, self._id_of(layer), ranges) for layer, ranges in areas.items())


def begin(
    history: History,
    *,
    map_name: str,
    segment: str,
    day: date,
    started: datetime,
    renderer: str,
    layers: Sequence[HarvestLayer],
) -> Harvest:
    """Continues the unfinished harvest of this map and segment, or begins a new one.

    A continued harvest keeps its day and start; what the site says about its layers now replaces what
    it said before. A new one first ends the map's other unfinished harvests as `interrupted`: their
    results stay, but what they found gone is neither recorded nor counted. `started` must have a time
    zone. Raises HistoryError, having changed nothing, for a day before the map's latest version:
    history is only written forwards.
    """
    if len({layer.name for layer in layers}) != len(layers) or not layers:
        raise ValueError("a harvest has at least one layer, and each once")
    with history.writing() as connection:
        map_id = beginning.map_id(connection, map_name)
        row = beginning.unfinished(connection, map_id, segment)
        if row is None:
            beginning.refuse_backwards(connection, map_id, map_name, day)
            beginning.interrupt(connection, map_id, started)
            new = beginning.NewHarvest(segment, day, started, renderer)
            row = beginning.insert_harvest(connection, map_id, new)
        beginning.describe_layers(connection, history.dialect, row.id, map_id, layers)
        layer_ids = beginning.layer_ids(connection, row.id)
    return Harvest(history, row, layer_ids, map_name, segment)
