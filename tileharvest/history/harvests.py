"""A harvest of one map, as the history sees it: begun or continued, recorded, ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import case, delete, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql

from tileharvest.errors import HistoryError
from tileharvest.history.areas import (
    asked_tiles,
    count_known_before,
    count_present,
    count_vanished,
    marks_of,
    unasked_tiles,
)
from tileharvest.history.costs import NO_COST, Cost
from tileharvest.history.day_costs import own_map_id
from tileharvest.history.errors import HarvestEndedError, SegmentFinishedError
from tileharvest.history.harvest_row import HarvestRow
from tileharvest.history.outlines import layer_row
from tileharvest.history.recorded_versions import latest_versions
from tileharvest.history.recorder import Recorder
from tileharvest.history.schema import (
    FINISHED,
    INTERRUPTED,
    PUSHED_WALK,
    batches,
    harvest_layers,
    harvests,
    insert_into,
    layers,
    proofs,
    versions,
)
from tileharvest.history.trust import distrust, skipped_tiles, squares_of, tops_of
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection

    from tileharvest.history.database import History
    from tileharvest.tiles.grid import TileRange
    from tileharvest.tiles.layers import Layer
    from tileharvest.tiles.outcomes import Outcome
    from tileharvest.tiles.results import TileResult
    from tileharvest.tiles.versions import Version
    from tileharvest.walk.trust import Mark


class LayerIds(dict[str, int]):
    """The ids of a harvest's layers, by name. Raises ValueError for a layer that it does not have."""

    def __missing__(self, layer: str) -> int:
        raise ValueError(f"layer '{layer}' does not belong to this harvest")


class HarvestRecord:
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
        self._row = row
        self._layer_ids = LayerIds(layer_ids)
        self.id = row.id
        self.day = row.day
        """The day of all versions it records: that on which it began, also when it is continued later."""
        self._today = today or (lambda: row.day)
        self._recorder = Recorder(history.dialect, row.id, row.day, self._layer_ids)
        self.map_name = map_name
        self.segment = segment
        self.continued = row.continued
        self.is_pushed = row.is_pushed
        """Whether it asks for nothing but what a person has pushed."""
        self.identity = f"{row.id}@{row.started.astimezone(UTC).isoformat(timespec='microseconds')}"
        """Names this harvest in every process that has a part in it, and no other harvest ever.

        The id alone would not do: a history that was restored from a backup gives ids again.
        """
        self._worker = uuid4().hex
        self._numbers = count(1)

    def record(self, results: Sequence[TileResult], cost: Cost = NO_COST) -> None:
        """Records a batch, and what it cost, in one transaction that is durable on return.

        Recording a result again changes nothing. Costs add up; each call counts once, even when a server was
        cut off in the middle of it. Of several results for a tile the one that says most is kept. `gone`
        makes no version before `finish`. Costs about 10 microseconds of CPU per unchanged tile in batches of
        200, 40 per changed one, plus one disk flush, however large the history is.
        Raises HarvestEndedError when the harvest has ended; without results the cost is added even then.
        """
        number = next(self._numbers)

        def write(connection: Connection) -> None:
            # A file loses no answer to a commit.
            if self._history.dialect != "sqlite" and not self._note_batch(connection, number):
                return
            self._row.add_cost(connection, cost, unless_ended=bool(results))
            if cost != NO_COST:
                self._row.add_spending(connection, self._today(), cost)
            self._recorder.record(connection, results)

        self._history.write(write)

    def _note_batch(self, connection: Connection, number: int) -> bool:
        """Notes that this batch is recorded. Returns False where it, or a later one, was recorded before.

        Waits for a transaction that records it now: that of a connection which was lost may still run.
        """
        batch = {"harvest": self.id, "worker": self._worker, "number": number}
        statement = postgresql.insert(batches).values(batch)
        noted = statement.on_conflict_do_update(
            index_elements=list(batches.primary_key.columns),
            set_={"number": statement.excluded.number},
            where=batches.c.number < statement.excluded.number,
        )
        return connection.execute(noted.returning(batches.c.number)).first() is not None

    def latest(self, layer: str, area: TileRange) -> dict[Tile, Version]:
        """Returns the latest version of each tile in the area that has any; `gone` ones too. One query.

        Made for blocks of neighbours. Nothing provisional is in it.
        """
        layer_id = self._layer_ids[layer]
        return self._history.read(lambda connection: latest_versions(connection, layer_id, area))

    def known(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """Returns how many tiles of these areas exist, by their latest versions. Each counts once.

        Areas are given by layer, and may overlap. Reads all tiles of the areas.
        """
        return self._history.read(
            lambda connection: sum(
                count_present(connection, layer, ranges) for _, layer, ranges in self._by_id(areas)
            )
        )

    def known_before(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """Returns how many tiles were known when it began: `known`, but for those that it has added."""
        return self._history.read(
            lambda connection: sum(
                count_known_before(connection, self.id, layer, ranges)
                for _, layer, ranges in self._by_id(areas)
            )
        )

    def expect(self, tiles: int) -> int:
        """Notes how many tiles were known when the harvest began. Returns the number that counts.

        That is the first number that any of its processes noted; a 0 is none.
        """

        def write(connection: Connection) -> int:
            first = update(harvests).where(harvests.c.id == self.id, harvests.c.expected == 0)
            connection.execute(first.values(expected=tiles))
            expected = select(harvests.c.expected).where(harvests.c.id == self.id)
            return int(connection.execute(expected).scalar_one())

        return self._history.write(write)

    def stop(self, reason: str) -> bool:
        """Notes why this run ends although the harvest has not, such as `budget: 1,000 requests`.

        Returns False, and changes nothing, where another process has noted the same or the harvest has ended.
        The reason is forgotten when the harvest is continued or ends.
        """
        is_news = harvests.c.ended.is_(None) & harvests.c.stopped.is_distinct_from(reason)
        stopping = update(harvests).where(harvests.c.id == self.id, is_news).values(stopped=reason)
        return self._history.write(lambda connection: connection.execute(stopping).rowcount > 0)

    def unasked(self, areas: Mapping[str, Sequence[TileRange]], limit: int) -> list[tuple[str, Tile]]:
        """Returns up to `limit` tiles that exist by their latest version and have no result in this harvest.

        Tiles that it skipped, because nothing above them has changed, are not among them.
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

    def outcomes(self, layer: str, tiles: Sequence[Tile]) -> dict[Tile, Outcome]:
        """Returns what this harvest, in whatever process, has found for these tiles, as far as it has.

        There may be any number of them: some milliseconds per thousand.
        """
        layer_id = self._layer_ids[layer]
        return self._history.read(lambda connection: asked_tiles(connection, self.id, layer_id, tiles))

    def ended(self) -> str | None:
        """Returns the reason with which any process has ended this harvest; None while it is unfinished."""
        return self._history.read(self._row.reason)

    def vanished(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """Returns how many of the `known` tiles this harvest found gone, or has neither asked nor skipped.

        Tiles below a tile that is gone are not asked. Compare with `known` before `finish`: when most tiles
        have vanished it is the map that has moved.
        """
        return self._history.read(
            lambda connection: sum(
                count_vanished(connection, self.id, layer, ranges, squares_of(connection, self.id, layer))
                for _, layer, ranges in self._by_id(areas)
            )
        )

    def counts(self) -> dict[Outcome, int]:
        """Returns the tiles per outcome so far, for outcomes that occurred. Provisional `gone` ones count.

        Exact, whatever was recorded twice. Reads all tiles of the map: meant for once in a while.
        """
        return self._history.read(self._row.counts)

    def finish(self, ended: datetime, reason: str, *, settle_gone: bool) -> bool:
        """Ends the harvest in one transaction: its counts, its end, and the versions of gone tiles.

        With `settle_gone` each tile found gone gets a version without image, in place of one of the same
        day. Without it nothing remains of their being gone: they are not counted, and count as not asked.
        The caller decides which, by `vanished`. `ended` must have a time zone; `reason` is a word such as
        `finished` or `moved`.

        Where another process has ended the harvest nothing is changed. Returns False then if it gave the
        same reason, and raises HarvestEndedError if it gave another.
        """

        def write(connection: Connection) -> None:
            if settle_gone:
                self._row.end_and_settle(connection, ended, reason)
            else:
                self._row.end_and_take_back(connection, ended, reason)

        try:
            self._history.write(write)
        except HarvestEndedError as error:
            if error.reason != reason:
                raise
            return False
        return True

    def note_walk(self, way: str, reason: str, kept: str | None = None) -> None:
        """Notes that it walks `full` or `pruned`, and why, in place of what was noted before.

        What was begun pruned is never noted as full, as some of it was skipped. Once trust was withdrawn it
        is `repaired`. `kept` tells which zones and zooms the harvest is for, in a form that is equal where
        they are. None leaves what was noted.
        """
        was_pruned = harvests.c.walk.in_(("pruned", "repaired"))
        noted: dict[str, Any] = {
            "walk": case((was_pruned, harvests.c.walk), else_=way),
            "walk_reason": reason,
        }
        if kept is not None:
            # `several` is equal to nothing: zones or zooms were changed before the harvest was continued.
            is_same = or_(harvests.c.kept.is_(None), harvests.c.kept == kept)
            noted["kept"] = case((is_same, kept), else_="several")
        self._history.write(
            lambda connection: connection.execute(
                update(harvests).where(harvests.c.id == self.id).values(noted)
            )
        )

    def marks(self, layer: str, area: TileRange) -> dict[Tile, Mark]:
        """Returns what is remembered of the tiles of an area, also by this harvest. One query.

        Only what an earlier harvest has been through with is trusted.
        """
        layer_id = self._layer_ids[layer]
        return self._history.read(lambda connection: marks_of(connection, layer_id, area))

    def tops(self, layer: str) -> list[Tile]:
        """Returns the tiles below which this harvest, in whatever process, did not ask, in order.

        There are none where trust in the layer was withdrawn: then all below them is to be asked.
        """
        layer_id = self._layer_ids[layer]
        tops = self._history.read(lambda connection: tops_of(connection, self.id, layer_id))
        return sorted(Tile(*cell) for cell in tops)

    def skipped(self, layer: str, areas: Sequence[TileRange]) -> list[Tile]:
        """Returns the known tiles of these areas that lie below a top, in order. The top itself does not.

        Tiles that have a result all the same are among them. So the list stays as it is while an audit goes
        through it, but for tiles that the audit finds new. Reads all tiles of the areas.
        """
        layer_id = self._layer_ids[layer]
        return self._history.read(lambda connection: skipped_tiles(connection, self.id, layer_id, areas))

    def distrust(self, layer: str, reason: str) -> list[Tile]:
        """Withdraws the layer's proof and all trust in what is remembered of it.

        Call it when this harvest has found a change where it had skipped. Marks that were read before must
        not be used any more. Returns the tops, which are to be asked again, whatever result they have, and
        walked down from. Call it again, also after a kill, until it returns none: it leaves out tops that
        were seen or failed since, and adds those that another process has skipped before it knew. The first
        reason is kept, and at its end the harvest gives no new proof. Raises HarvestEndedError when it has
        ended.
        """
        layer_id = self._layer_ids[layer]

        def write(connection: Connection) -> list[Tile]:
            self._row.add_cost(connection, NO_COST, unless_ended=True)
            return distrust(connection, self._history.dialect, self.id, self.day, layer_id, reason)

        return self._history.write(write)

    def distrusted(self) -> dict[str, str]:
        """Returns the layers in which this harvest, in whatever process, has withdrawn trust, with the
        reasons."""
        query = (
            select(layers.c.name, proofs.c.withdrawn)
            .join_from(proofs, layers, layers.c.id == proofs.c.layer)
            .where(proofs.c.harvest == self.id, proofs.c.withdrawn.is_not(None))
        )
        return self._history.read(
            lambda connection: {name: reason for name, reason in connection.execute(query)}  # noqa: C416
        )

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
    layers: Sequence[Layer],
    again: bool = False,
    pushed: bool = False,
    today: Callable[[], date] | None = None,
) -> HarvestRecord:
    """Continues the unfinished harvest of this map and segment, or begins a new one.

    A continued harvest keeps its day and start; what the site says about its layers now replaces what it said
    before. A new one first ends the map's other unfinished harvest as `interrupted`: its results stay, but
    what it found gone is neither recorded nor counted. `started` must have a time zone. When several
    processes call this at once for one map and segment, they get the same harvest, and it is `continued` for
    all but one. Costs are spent on the day that `today` gives when they arise; without it on the harvest's
    own day.

    Raises, having changed nothing, SegmentFinishedError where a harvest of this map and segment is finished,
    unless `again` says that this is meant. With `pushed` another one is begun, which asks for nothing but
    what a person has pushed since; it ends where `again` asks for everything. Raises HistoryError for a day
    before the map's latest version: history is only written forwards.
    """
    if len({layer.name for layer in layers}) != len(layers) or not layers:
        raise ValueError("a harvest has at least one layer, and each once")
    beginning = Beginning(map_name, segment, day, started, renderer, layers, again, pushed)
    row, layer_ids = history.write(beginning)
    return HarvestRecord(history, row, layer_ids, map_name, segment, today)


@dataclass(slots=True)
class Beginning:
    """Begins a harvest, or continues the unfinished one of its segment, within a transaction."""

    map_name: str
    segment: str
    day: date
    started: datetime
    """With a time zone."""
    renderer: str
    layers: Sequence[Layer]
    """As the site describes them now."""
    again: bool = False
    """Whether one is begun though a harvest of the segment is finished."""
    pushed: bool = False
    """Whether that one asks for nothing but what a person has pushed."""
    _inserted: int | None = field(default=None, init=False)
    """The id that an earlier call has inserted, in a transaction that may have been committed or not."""

    def __call__(self, connection: Connection) -> tuple[HarvestRow, dict[str, int]]:
        """Returns the harvest, and its layers' ids by name.

        It can be called again when the answer to a commit was lost.
        """
        map_id = own_map_id(connection, self.map_name)
        row = HarvestRow.unfinished(connection, map_id, self.segment)
        if row is None or (row.is_pushed and self.again):
            row = self._insert(connection, map_id)
        else:
            # Why its last run ended counts no longer.
            connection.execute(update(harvests).where(harvests.c.id == row.id).values(stopped=None))
        if row.id == self._inserted:
            row = replace(row, continued=False)
        self._describe_layers(connection, map_id, row.id)
        its_layers = (
            select(layers.c.name, layers.c.id)
            .join_from(layers, harvest_layers, harvest_layers.c.layer == layers.c.id)
            .where(harvest_layers.c.harvest == row.id)
        )
        return row, {name: id_ for name, id_ in connection.execute(its_layers)}  # noqa: C416

    def _insert(self, connection: Connection, map_id: int) -> HarvestRow:
        if not (self.again or self.pushed):
            self._refuse_finished(connection, map_id)
        self._refuse_backwards(connection, map_id)
        other = HarvestRow.unfinished(connection, map_id)
        if other is not None:
            other.end(connection, self.started, INTERRUPTED)
        its_harvests = select(harvests.c.id).where(harvests.c.map == map_id)
        # They tell whether a commit of an unfinished harvest took effect, and all of those have ended.
        connection.execute(delete(batches).where(batches.c.harvest.in_(its_harvests)))
        new = insert(harvests).values(
            map=map_id,
            segment=self.segment,
            day=self.day,
            started=self.started,
            renderer=self.renderer,
            requests=0,
            received_bytes=0,
            stored_bytes=0,
            walk=PUSHED_WALK if self.pushed else None,
        )
        harvest = connection.execute(new.returning(harvests.c.id)).scalar_one()
        self._inserted = harvest
        return HarvestRow(harvest, self.day, self.started, continued=False, is_pushed=self.pushed)

    def _describe_layers(self, connection: Connection, map_id: int, harvest: int) -> None:
        """Keeps what the site says about the layers, in place of what it said earlier in this harvest."""
        dialect = connection.dialect.name
        names = [{"map": map_id, "name": layer.name} for layer in self.layers]
        connection.execute(insert_into(dialect, layers).on_conflict_do_nothing(), names)
        rows = connection.execute(select(layers.c.name, layers.c.id).where(layers.c.map == map_id))
        ids: dict[str, int] = {row.name: row.id for row in rows}
        statement = insert_into(dialect, harvest_layers)
        keys = ("harvest", "layer")
        changing = [column.name for column in harvest_layers.c if column.name not in keys]
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=[harvest_layers.c[key] for key in keys],
                set_={name: statement.excluded[name] for name in changing},
            ),
            [{"harvest": harvest, "layer": ids[layer.name], **layer_row(layer)} for layer in self.layers],
        )

    def _refuse_finished(self, connection: Connection, map_id: int) -> None:
        query = select(func.max(harvests.c.ended)).where(
            harvests.c.map == map_id,
            harvests.c.segment == self.segment,
            harvests.c.reason == FINISHED,
        )
        ended: datetime | None = connection.execute(query).scalar()
        if ended is not None:
            raise SegmentFinishedError(
                f"map '{self.map_name}' is already harvested for {self.segment}, since"
                f" {ended:%Y-%m-%d %H:%M} UTC; nothing was changed"
            )

    def _refuse_backwards(self, connection: Connection, map_id: int) -> None:
        """Reads an index of all versions of the map."""
        its_layers = select(layers.c.id).where(layers.c.map == map_id)
        query = select(func.max(versions.c.day)).where(versions.c.layer.in_(its_layers))
        latest: date | None = connection.execute(query).scalar()
        if latest is not None and self.day < latest:
            raise HistoryError(
                f"the history of map '{self.map_name}' has versions of {latest} already: history is only"
                f" written forwards, so {self.day} cannot be harvested; nothing was changed; check this"
                " computer's clock"
            )
