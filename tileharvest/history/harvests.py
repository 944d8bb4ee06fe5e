"""One harvest of one map, as the history sees it: begun or continued, recorded, ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from tileharvest.history import beginning, ending
from tileharvest.history.areas import (
    asked_tiles,
    count_known_before,
    count_present,
    count_vanished,
    latest_versions,
    unasked_tiles,
)
from tileharvest.history.charging import add_cost, add_spending, note_batch
from tileharvest.history.costs import NO_COST, Cost
from tileharvest.history.errors import HarvestEndedError
from tileharvest.history.recording import Recorder
from tileharvest.history.schema import harvests
from tileharvest.history.trust import squares_of
from tileharvest.history.walk_record import WalkRecord
from tileharvest.tiles.versions import EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection

    from tileharvest.history.beginning import HarvestRow
    from tileharvest.history.database import History
    from tileharvest.tiles.grid import Tile, TileRange
    from tileharvest.tiles.outcomes import Outcome
    from tileharvest.tiles.results import TileResult
    from tileharvest.tiles.versions import Version


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


class LayerIds(dict[str, int]):
    """The ids of a harvest's layers, by name. Raises ValueError for a layer that it does not have."""

    def __missing__(self, layer: str) -> int:
        raise ValueError(f"layer '{layer}' does not belong to this harvest")


class Harvest:
    """An unfinished harvest. Get it from `begin`.

    One thread may record while another looks up versions, and other processes may do so too. Every method
    raises HistoryError when the database refuses, and ValueError for a layer that the harvest does not have.
    Where a server goes away, each waits for it as long as the history's patience lasts.
    """

    def __init__(
        self,
        history: History,
        row: HarvestRow,
        layer_ids: Mapping[str, int],
        map_name: str,
        segment: str,
        today: Callable[[], date] | None,
    ) -> None:
        self._history = history
        self._layer_ids = LayerIds(layer_ids)
        self.id = row.id
        self.day = row.day
        """Of all versions it records: the day on which it began, also when it is continued later."""
        self.walk = WalkRecord(history, row, self._layer_ids)
        self._today = today or (lambda: row.day)
        self._recorder = Recorder(history.dialect, row.id, row.day, self._layer_ids)
        self.map_name = map_name
        self.segment = segment
        self.continued = row.continued
        self.identity = f"{row.id}@{row.started.astimezone(UTC).isoformat(timespec='microseconds')}"
        """What no other harvest ever has, and the same in each process that has a part in this one.

        Not the id alone: a history that was restored from a backup gives ids again.
        """
        self._worker = uuid4().hex
        self._numbers = count(1)

    def record(self, results: Sequence[TileResult], cost: Cost = NO_COST) -> None:
        """Records a batch, and what it cost, in one transaction that is durable on return.

        Recording a result again changes nothing; costs add up, and each call counts once, also when a server
        was cut off in the middle of it. Of several results for a tile the one that says most is kept.
        `gone` makes no version before `finish`. Costs about 10 microseconds of CPU per unchanged tile in
        batches of 200, 40 per changed one, plus one disk flush, however large the history is.
        Raises HarvestEndedError when the harvest has ended; without results the cost is added even then.
        """
        number = next(self._numbers)
        adding = add_cost(self.id, cost)
        if results:
            adding = adding.where(harvests.c.ended.is_(None))

        def write(connection: Connection) -> None:
            if self._is_recorded(connection, number):
                return
            if connection.execute(adding).rowcount == 0:
                ending.refuse_ended(connection, self.id)
            if cost != NO_COST:
                connection.execute(add_spending(self._history.dialect, self.id, self._today(), cost))
            self._recorder.record(connection, results)

        self._history.write(write)

    def _is_recorded(self, connection: Connection, number: int) -> bool:
        """Whether a commit whose answer was lost has taken effect. No answer of a file is ever lost."""
        if self._history.dialect == "sqlite":
            return False
        return connection.execute(note_batch(self.id, self._worker, number)).first() is None

    def latest(self, layer: str, area: TileRange) -> dict[Tile, Version]:
        """The latest version of each tile in the area that has any; `gone` ones too. One query.

        Made for blocks of neighbours. Nothing provisional is in it.
        """
        layer_id = self._layer_ids[layer]
        return self._history.read(lambda connection: latest_versions(connection, layer_id, area))

    def known(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """How many tiles of these areas exist, by their latest versions; each counts once.

        Areas are given by layer, and may overlap. Reads all tiles of the areas.
        """
        return self._history.read(
            lambda connection: sum(
                count_present(connection, layer, ranges) for _, layer, ranges in self._by_id(areas)
            )
        )

    def known_before(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """As `known`, without the tiles that this harvest has added: what was known when it began."""
        return self._history.read(
            lambda connection: sum(
                count_known_before(connection, self.id, layer, ranges)
                for _, layer, ranges in self._by_id(areas)
            )
        )

    def expect(self, tiles: int) -> int:
        """Notes how many tiles were known when the harvest began, and gives what all its processes go by.

        That is the number that was noted first; a 0 counts as none.
        """
        return self._history.write(lambda connection: beginning.expect(connection, self.id, tiles))

    def stop(self, reason: str) -> bool:
        """Notes why this run ends although the harvest has not, such as `budget: 1,000 requests`; False where
        another process has noted the same, or the harvest has ended: then nothing is changed.

        It is forgotten when the harvest is continued or ends.
        """
        return self._history.write(lambda connection: ending.note_stop(connection, self.id, reason))

    def unasked(self, areas: Mapping[str, Sequence[TileRange]], limit: int) -> list[tuple[str, Tile]]:
        """Up to `limit` tiles that exist by their latest version and have no result in this harvest.

        Not those that it has skipped, as nothing above them has changed.
        """

        def read(connection: Connection) -> list[tuple[str, Tile]]:
            found: list[tuple[str, Tile]] = []
            for name, layer, ranges in self._by_id(areas):
                missing = limit - len(found)
                if missing <= 0:
                    break
                skipped = squares_of(connection, self.id, layer)
                tiles = unasked_tiles(connection, self.id, layer, ranges, missing, skipped)
                found += [(name, tile) for tile in tiles]
            return found

        return self._history.read(read)

    def without_result(self, layer: str, tiles: Sequence[Tile]) -> list[Tile]:
        """Of these tiles, in their order, those that this harvest has no result for, of whatever process.

        Any number of them: some milliseconds per thousand.
        """
        layer_id = self._layer_ids[layer]
        asked = self._history.read(lambda connection: asked_tiles(connection, self.id, layer_id, tiles))
        return [tile for tile in tiles if tile not in asked]

    def ended(self) -> str | None:
        """The reason with which this harvest has ended by now, in whatever process; None while it has not."""
        return self._history.read(lambda connection: ending.reason_of(connection, self.id))

    def vanished(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """How many of the `known` tiles this harvest found gone, or has not asked nor skipped.

        Not asked are also those below a tile that is gone. To be compared with `known` before `finish`:
        when most tiles have vanished it is the map that has moved.
        """
        return self._history.read(
            lambda connection: sum(
                count_vanished(connection, self.id, layer, ranges, squares_of(connection, self.id, layer))
                for _, layer, ranges in self._by_id(areas)
            )
        )

    def counts(self) -> dict[Outcome, int]:
        """Tiles per outcome so far; only outcomes that occurred. Provisional `gone` ones count.

        Exact, whatever was recorded twice. Reads all tiles of the map: meant for once in a while.
        """
        return self._history.read(lambda connection: ending.counts(connection, self.id))

    def finish(self, ended: datetime, reason: str, *, settle_gone: bool) -> bool:
        """Ends the harvest: counts, end and versions of gone tiles, in one transaction; False where another
        process has ended it with the same reason.

        With `settle_gone` each tile found gone gets a version without image, in place of one of the same
        day. Without it nothing remains of their being gone: not in the counts, and their tiles count as
        not asked. The caller decides which, by `vanished`. `ended` must have a time zone; `reason` is a
        word such as `finished` or `moved`. Where another process has ended the harvest nothing is changed,
        and HarvestEndedError is raised unless the reason is the same.
        """

        def write(connection: Connection) -> None:
            if settle_gone:
                ending.end_and_settle(connection, self._history.dialect, self.id, ended, reason)
            else:
                ending.end_and_take_back(connection, self.id, ended, reason)

        try:
            self._history.write(write)
        except HarvestEndedError as error:
            if error.reason != reason:
                raise
            return False
        return True

    def _by_id(
        self, areas: Mapping[str, Sequence[TileRange]]
    ) -> Iterator[tuple[str, int, Sequence[TileRange]]]:
        return ((layer, self._layer_ids[layer], ranges) for layer, ranges in areas.items())


def begin(
    history: History,
    *,
    map_name: str,
    segment: str,
    day: date,
    started: datetime,
    renderer: str,
    layers: Sequence[HarvestLayer],
    again: bool = False,
    today: Callable[[], date] | None = None,
) -> Harvest:
    """Continues the unfinished harvest of this map and segment, or begins a new one.

    A continued harvest keeps its day and start; what the site says about its layers now replaces what
    it said before. A new one first ends the map's other unfinished harvests as `interrupted`: their
    results stay, but what they found gone is neither recorded nor counted. `started` must have a time
    zone. However many processes call this at once for a map and segment, they get the same harvest, and
    it is `continued` for all but one. What it costs is spent on the day that `today` tells then; None: on
    the harvest's own.

    Raises, having changed nothing, SegmentFinishedError where a harvest of this map and segment is finished,
    unless `again` says that this is meant; and HistoryError for a day before the map's latest version:
    history is only written forwards.
    """
    if len({layer.name for layer in layers}) != len(layers) or not layers:
        raise ValueError("a harvest has at least one layer, and each once")
    new = beginning.NewHarvest(segment, day, started, renderer)
    row, layer_ids = history.write(beginning.Beginning(map_name, new, layers, again))
    return Harvest(history, row, layer_ids, map_name, segment, today)
