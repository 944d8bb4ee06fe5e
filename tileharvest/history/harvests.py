"""A harvest of one map, as the history sees it: begun or continued, recorded, ended."""

from __future__ import annotations

from datetime import UTC
from itertools import count, filterfalse, islice
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from sqlalchemy import Integer, Text, bindparam, case, func, or_, select, tuple_, update

from tileharvest.history.areas import (
    IS_PROVISIONALLY_GONE,
    IS_UNASKED,
    AreaQuery,
    count_present,
    present_cells,
)
from tileharvest.history.change_indexes import ground_of, has_readings, note_readings, withdraw
from tileharvest.history.costs import NO_COST, Cost, add_spending
from tileharvest.history.errors import HarvestEndedError
from tileharvest.history.recorded_versions import latest_versions
from tileharvest.history.recorder import record_results
from tileharvest.history.schema import (
    CHANGES_WALK,
    FINISHED,
    PUSHED_WALK,
    batches,
    harvest_counts,
    harvest_layers,
    harvests,
    insert_into,
    layers,
    proofs,
    tiles,
    validators,
    versions,
)
from tileharvest.history.trust import distrust, spared_by, tops_of
from tileharvest.tiles.grid import Tile, packed
from tileharvest.tiles.outcomes import Outcome
from tileharvest.walk.trust import Mark

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date, datetime

    from sqlalchemy import ColumnElement, Connection

    from tileharvest.history.database import History
    from tileharvest.history.harvest_row import Beginning, HarvestRow
    from tileharvest.tiles.grid import TileRange
    from tileharvest.tiles.results import TileResult
    from tileharvest.tiles.versions import Version
    from tileharvest.walk.change_index import ChangedGround, ChangeIndex, StoredIndex

_TILES_AT_ONCE: Final = 500
"""How many tiles one query names, each by three parameters: a database allows only so many."""

_OUTCOMES: Final = select(tiles.c.zoom, tiles.c.x, tiles.c.y, tiles.c.outcome).where(
    tiles.c.layer == bindparam("in_layer"),
    tiles.c.harvest == bindparam("in_harvest"),
    tuple_(tiles.c.zoom, tiles.c.x, tiles.c.y).in_(bindparam("cells", expanding=True)),
)
_RESULT: Final = AreaQuery.over(
    tiles, select(tiles.c.zoom).where(tiles.c.harvest == bindparam("in_harvest")).limit(1)
)
_MARKS: Final = AreaQuery.over(
    validators,
    select(validators.c.x, validators.c.y, validators.c.etag, validators.c.last_modified, validators.c.whole),
)


_WAS_KNOWN: Final = or_(IS_UNASKED, tiles.c.outcome != Outcome.ADDED.value)
"""Says of a tile that it was known before the harvest."""
_EXPECTED: Final = case(
    (harvests.c.expected == 0, bindparam("noted", type_=Integer)), else_=harvests.c.expected
)
_EXPECT: Final = (
    update(harvests)
    .where(harvests.c.id == bindparam("in_harvest"))
    .values(expected=_EXPECTED)
    .returning(harvests.c.expected)
)
_HAS_WALK: Final = (
    select(harvests.c.walk.is_not(None)).where(harvests.c.id == bindparam("in_harvest")).with_for_update()
)
"""Until its walk is noted, no process of the harvest asks for a tile."""
_WAS_PRUNED: Final = harvests.c.walk.in_(("pruned", "repaired"))
_NOTE_WALK: Final = (
    update(harvests)
    .where(harvests.c.id == bindparam("in_harvest"), harvests.c.ended.is_(None))
    .values(
        walk=case((_WAS_PRUNED, harvests.c.walk), else_=bindparam("way", type_=Text)),
        walk_reason=bindparam("why", type_=Text),
    )
)
_KEEPS: Final = bindparam("keeps", type_=Text)
# `several` is equal to nothing: zones or zooms were changed before the harvest was continued.
_NOTE_KEPT: Final = _NOTE_WALK.values(
    kept=case((or_(harvests.c.kept.is_(None), harvests.c.kept == _KEEPS), _KEEPS), else_="several")
)
_LAST_COMPLETE: Final = (
    select(harvests.c.id, harvests.c.kept)
    .join_from(harvests, harvest_layers, harvest_layers.c.harvest == harvests.c.id)
    .where(
        harvests.c.map == bindparam("in_map"),
        harvest_layers.c.layer == bindparam("in_layer"),
        harvests.c.id != bindparam("in_harvest"),
        harvests.c.reason == FINISHED,
        func.coalesce(harvests.c.walk, "full").not_in((PUSHED_WALK, CHANGES_WALK)),
    )
    .order_by(harvests.c.day.desc(), harvests.c.id.desc())
    .limit(1)
)
_MISSING: Final = (Outcome.NOTHING.value, Outcome.GONE.value)
_FOUND_IN: Final = select(func.coalesce(func.sum(harvest_counts.c.tiles), 0)).where(
    harvest_counts.c.harvest == bindparam("in_harvest"),
    harvest_counts.c.layer == bindparam("in_layer"),
    harvest_counts.c.outcome.not_in(_MISSING),
)
_DISTRUSTED: Final = (
    select(layers.c.name, proofs.c.withdrawn)
    .join_from(proofs, layers, layers.c.id == proofs.c.layer)
    .where(proofs.c.harvest == bindparam("in_harvest"), proofs.c.withdrawn.is_not(None))
)
_INSERT_BATCH: Final = insert_into(batches).values({one.name: bindparam(one.name) for one in batches.c})
_NOTE_BATCH: Final = _INSERT_BATCH.on_conflict_do_update(
    index_elements=list(batches.primary_key.columns),
    set_={"number": _INSERT_BATCH.excluded.number},
    where=batches.c.number < _INSERT_BATCH.excluded.number,
).returning(batches.c.number)


class HarvestRecord:
    """An unfinished harvest. Get it from `begin`.

    One thread may record while another looks up versions, and other processes may do so too. Every method
    raises HistoryError when the database refuses, and KeyError for a layer that the harvest does not have.
    Where a server goes away, each waits for it as long as the history's patience lasts.
    """

    def __init__(
        self,
        history: History,
        row: HarvestRow,
        layer_ids: Mapping[str, int],
        today: Callable[[], date] | None,
    ) -> None:
        self.history = history
        self._row = row
        self._layer_ids = layer_ids
        self.id = row.id
        self.day = row.day
        """The day of all versions it records: that on which it began, also when it is continued later."""
        self._today = today or (lambda: row.day)
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
        self.history.write(self.recording(results, cost))

    def recording(self, results: Sequence[TileResult], cost: Cost) -> Callable[[Connection], None]:
        """Returns what records a batch as `record` does, within a transaction that the caller opens."""
        number = next(self._numbers)

        def write(connection: Connection) -> None:
            # A file loses no answer to a commit.
            if self.history.dialect != "sqlite" and not self._note_batch(connection, number):
                return
            self._row.add_cost(connection, cost, unless_ended=bool(results))
            if cost != NO_COST:
                add_spending(connection, self._row.map, self._today(), cost)
            record_results(connection, self.id, self.day, self._layer_ids, results)

        return write

    def _note_batch(self, connection: Connection, number: int) -> bool:
        """Notes that this batch is recorded. Returns False where it, or a later one, was recorded before.

        Waits for a transaction that records it now: that of a connection which was lost may still run.
        """
        batch = {"harvest": self.id, "worker": self._worker, "number": number}
        return connection.execute(_NOTE_BATCH, batch).first() is not None

    def latest(self, layer: str, area: TileRange) -> dict[Tile, Version]:
        """Returns the latest version of each tile in the area that has any; `gone` ones too. One query.

        Made for blocks of neighbours. Nothing provisional is in it.
        """
        layer_id = self._layer_ids[layer]
        return self.history.read(lambda connection: latest_versions(connection, layer_id, area))

    def known(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """Returns how many tiles of these areas exist, by their latest versions. Each counts once.

        Areas are given by layer, and may overlap. Reads all tiles of the areas.
        """
        return self._count(areas)

    def known_before(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """Returns how many tiles were known when it began: as `known`, without those that it has added."""
        return self._count(areas, _WAS_KNOWN, in_harvest=self.id)

    def named(self, sha1s: Collection[str]) -> set[str]:
        """Returns those images that a version of any map has. Reads all versions once."""
        having = select(versions.c.sha1).where(versions.c.sha1.in_(list(sha1s))).distinct()
        return self.history.read(lambda connection: set(connection.execute(having).scalars()))

    def is_first(self) -> bool:
        """Returns whether no harvest of the map is finished so far. An imported day is one."""
        finished = select(harvests.c.id).where(harvests.c.map == self._row.map, harvests.c.reason == FINISHED)
        return self.history.read(lambda connection: connection.execute(finished.limit(1)).first() is None)

    def expect(self, tiles: int) -> int:
        """Notes how many tiles were known when the harvest began. Returns the number that counts.

        That is the first number that any of its processes noted; a 0 is none.
        """

        noted = {"in_harvest": self.id, "noted": tiles}
        return self.history.write(lambda connection: int(connection.execute(_EXPECT, noted).scalar_one()))

    def stop(self, reason: str) -> bool:
        """Notes why this run ends although the harvest has not, such as `budget: 1,000 requests`.

        Returns False, and changes nothing, where another process has noted the same or the harvest has ended.
        The reason is forgotten when the harvest is continued or ends.
        """
        is_news = harvests.c.ended.is_(None) & harvests.c.stopped.is_distinct_from(reason)
        stopping = update(harvests).where(harvests.c.id == self.id, is_news).values(stopped=reason)
        return self.history.write(lambda connection: connection.execute(stopping).rowcount > 0)

    def unasked(self, areas: Mapping[str, Sequence[TileRange]], limit: int) -> list[tuple[str, Tile]]:
        """Returns up to `limit` tiles that exist by their latest version and have no result in this harvest.

        Tiles that it skipped, because nothing above them has changed, are not among them.
        """

        def read(connection: Connection) -> list[tuple[str, Tile]]:
            found: list[tuple[str, Tile]] = []
            for name, ranges in areas.items():
                layer = self._layer_ids[name]
                is_spared = spared_by(connection, self.id, layer)
                # How many of them are skipped is not known before.
                left = limit - len(found)
                most = None if is_spared else left
                unasked = present_cells(connection, layer, ranges, IS_UNASKED, most, in_harvest=self.id)
                missing = islice(filterfalse(is_spared, unasked) if is_spared else unasked, left)
                found += [(name, Tile(*cell)) for cell in missing]
            return found

        return self.history.read(read)

    def outcomes(self, layer: str, tiles: Sequence[Tile]) -> dict[Tile, Outcome]:
        """Returns what this harvest, in whatever process, has found for these tiles, as far as it has.

        There may be any number of tiles. Takes some milliseconds per thousand.
        """
        cells = [(tile.zoom, tile.x, tile.y) for tile in tiles]
        asked = {"in_harvest": self.id, "in_layer": self._layer_ids[layer]}

        def read(connection: Connection) -> dict[Tile, Outcome]:
            found: dict[Tile, Outcome] = {}
            for start in range(0, len(cells), _TILES_AT_ONCE):
                part = {**asked, "cells": cells[start : start + _TILES_AT_ONCE]}
                rows = connection.execute(_OUTCOMES, part)
                found.update((Tile(zoom, x, y), Outcome(outcome)) for zoom, x, y, outcome in rows)
            return found

        return self.history.read(read)

    def has_result(self, layer: str, areas: Sequence[TileRange]) -> bool:
        """Returns whether this harvest, in whatever process, has a result for any tile of these areas.

        Looks at one area after the other, and reads at most what the history has there.
        """
        layer_id = self._layer_ids[layer]

        def read(connection: Connection) -> bool:
            found = (_RESULT.rows(connection, layer_id, area, in_harvest=self.id) for area in areas)
            return any(found)

        return self.history.read(read)

    def ended(self) -> str | None:
        """Returns the reason with which any process has ended this harvest; None while it is unfinished."""
        return self.history.read(self._row.reason)

    def vanished(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """Returns how many of the `known` tiles this harvest found gone, or has neither asked nor skipped.

        Tiles below a tile that is gone are not asked. Compare with `known` before `finish`: when most tiles
        have vanished it is the map that has moved.
        """

        def read(connection: Connection) -> int:
            vanished = 0
            its = {"in_harvest": self.id}
            for name, ranges in areas.items():
                layer = self._layer_ids[name]
                vanished += count_present(connection, layer, ranges, IS_PROVISIONALLY_GONE, **its)
                if is_spared := spared_by(connection, self.id, layer):
                    cells = present_cells(connection, layer, ranges, IS_UNASKED, **its)
                    vanished += sum(not is_spared(cell) for cell in cells)
                else:
                    vanished += count_present(connection, layer, ranges, IS_UNASKED, **its)
            return vanished

        return self.history.read(read)

    def counts(self) -> dict[Outcome, int]:
        """Returns the tiles per outcome so far, for outcomes that occurred. Provisional `gone` ones count.

        Exact, whatever was recorded twice. Reads all tiles of the map: meant for once in a while.
        """
        return self.history.read(self._row.counts)

    def why_failed(self) -> dict[str, int]:
        """Returns the reasons of failed tiles with how many there are of each, the most frequent first."""
        return self.history.read(self._row.why_failed)

    def found(self) -> dict[str, int]:
        """Returns by layer how many tiles this harvest has found so far, those that are missing left out.

        Reads all tiles of the map.
        """
        by_id = self.history.read(self._row.found)
        return {name: by_id.get(number, 0) for name, number in self._layer_ids.items()}

    def last_complete(self) -> dict[str, tuple[int, str | None]]:
        """Returns by layer how many tiles the last complete harvest before this one has found, those that it
        skipped included, and which zones and zooms it was for, as `note_walk` was told.

        A layer that no complete harvest had is left out. Costs two short queries per layer.
        """

        def read(connection: Connection) -> dict[str, tuple[int, str | None]]:
            found: dict[str, tuple[int, str | None]] = {}
            for name, layer in self._layer_ids.items():
                its = {"in_map": self._row.map, "in_layer": layer, "in_harvest": self.id}
                last = connection.execute(_LAST_COMPLETE, its).first()
                if last is not None:
                    its["in_harvest"] = last.id
                    found[name] = int(connection.execute(_FOUND_IN, its).scalar_one()), last.kept
            return found

        return self.history.read(read)

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
            self._row.end(connection, ended, reason, settle_gone=settle_gone)

        try:
            self.history.write(write)
        except HarvestEndedError as error:
            if error.reason != reason:
                raise
            return False
        return True

    def note_walk(self, way: str, reason: str, kept: str | None = None) -> None:
        """Notes that it walks `full` or `pruned`, and why, in place of what was noted before.

        What was begun pruned is never noted as full, as some of it was skipped. Once trust was withdrawn it
        is `repaired`. `kept` tells which zones and zooms the harvest is for, in a form that is equal where
        they are. None leaves what was noted. So does the end: a worker that has come too late for it would
        decide by what the harvest itself has proved.
        """
        noted: dict[str, Any] = {"in_harvest": self.id, "way": way, "why": reason}
        if kept is not None:
            noted["keeps"] = kept
        noting = _NOTE_WALK if kept is None else _NOTE_KEPT
        self.history.write(lambda connection: connection.execute(noting, noted))

    def marks(self, layer: str, area: TileRange) -> dict[Tile, Mark]:
        """Returns what is remembered of the tiles of an area, also by this harvest. One query.

        Only what an earlier harvest has been through with is trusted.
        """
        layer_id = self._layer_ids[layer]
        rows = self.history.read(lambda connection: _MARKS.rows(connection, layer_id, area))
        return {Tile(area.zoom, x, y): Mark(*mark) for x, y, *mark in rows}

    def tops(self, layer: str) -> list[Tile]:
        """Returns the tiles below which this harvest, in whatever process, did not ask, in order.

        There are none where trust in the layer was withdrawn: then all below them is to be asked.
        """
        layer_id = self._layer_ids[layer]
        tops = self.history.read(lambda connection: tops_of(connection, self.id, layer_id))
        return sorted(Tile(*cell) for cell in tops)

    def skipped(self, layer: str, areas: Sequence[TileRange]) -> array[int]:
        """Returns the known tiles of these areas that are skipped, packed, in no order.

        Those are the tiles below a top, but not the top itself, and those of which a change index does not
        tell.

        Tiles that have a result all the same are among them. So the list stays as it is while an audit goes
        through it, but for tiles that the audit finds new. Reads all tiles of the areas.
        """
        layer_id = self._layer_ids[layer]

        def read(connection: Connection) -> array[int]:
            is_spared = spared_by(connection, self.id, layer_id)
            if is_spared is None:
                return packed(())
            return packed(filter(is_spared, present_cells(connection, layer_id, areas)))

        return self.history.read(read)

    def read_indexes(
        self, read: Mapping[str, ChangeIndex], relied_on: Mapping[str, StoredIndex]
    ) -> dict[str, ChangedGround]:
        """Notes what the site says of its changes, by layer, before any tile is asked for.

        Returns the ground to which the walk of a layer keeps, for those whose index is relied on and tells of
        less than all. A harvest keeps to what was noted before its walk was: what changed since then the next
        one is told of. Who began it may have been killed before that, so any process may note it.
        """

        def write(connection: Connection) -> dict[str, ChangedGround]:
            # The row is locked, so that of several processes only one finds nothing noted.
            has_walk = connection.execute(_HAS_WALK, {"in_harvest": self.id}).scalar_one()
            if not has_walk and not has_readings(connection, self.id):
                note_readings(connection, self.id, self._layer_ids, read, relied_on)
            grounds = {name: ground_of(connection, self.id, layer) for name, layer in self._layer_ids.items()}
            return {name: ground for name, ground in grounds.items() if ground is not None}

        return self.history.write(write)

    def noted_ground(self, layer: str) -> ChangedGround | None:
        """Returns the ground to which the walk of a layer has kept when it began, or None where it had none.
        Whether its index is still relied on does not matter."""
        layer_id = self._layer_ids[layer]
        return self.history.read(lambda connection: ground_of(connection, self.id, layer_id, is_kept=False))

    def distrust(self, layer: str, reason: str, *, is_untold: bool = False) -> list[Tile]:
        """Withdraws the layer's proof and all trust in what is remembered of it.

        Call it when this harvest has found a change where it had skipped. With `is_untold` its change index
        did not tell of it, and is not relied on any more either. Marks that were read before must
        not be used any more. Returns the tops, which are to be asked again, whatever result they have, and
        walked down from. Call it again, also after a kill, until it returns none: it leaves out tops that
        were seen or failed since, and adds those that another process has skipped before it knew. The first
        reason is kept, and at its end the harvest gives no new proof. Raises HarvestEndedError when it has
        ended.
        """
        layer_id = self._layer_ids[layer]

        def write(connection: Connection) -> list[Tile]:
            self._row.add_cost(connection, NO_COST, unless_ended=True)
            if is_untold:
                withdraw(connection, self.id, self.day, layer_id, reason)
            return distrust(connection, self.id, self.day, layer_id, reason)

        return self.history.write(write)

    def distrusted(self) -> dict[str, str]:
        """Returns the layers in which this harvest, in whatever process, has withdrawn trust, with the
        reasons."""
        its = {"in_harvest": self.id}
        return self.history.read(
            lambda connection: {name: reason for name, reason in connection.execute(_DISTRUSTED, its)}  # noqa: C416
        )

    def _count(
        self,
        areas: Mapping[str, Sequence[TileRange]],
        condition: ColumnElement[bool] | None = None,
        **parameters: int,
    ) -> int:
        return self.history.read(
            lambda connection: sum(
                count_present(connection, self._layer_ids[layer], ranges, condition, **parameters)
                for layer, ranges in areas.items()
            )
        )


def begin(history: History, beginning: Beginning, today: Callable[[], date] | None = None) -> HarvestRecord:
    """Continues the unfinished harvest of this map and segment, or begins a new one.

    A continued harvest keeps its day and start; what the site says about its layers now replaces what it said
    before. A new one first ends the map's other unfinished harvest as `interrupted`: its results stay, but
    what it found gone is neither recorded nor counted. When several processes call this at once for one map
    and segment, they get the same harvest, and it is `continued` for all but one. Costs are spent on the day
    that `today` gives when they arise; without it on the harvest's own day.

    Raises, having changed nothing, AlreadyHarvestedError where a harvest of this map and segment is finished,
    unless `again` or `pushed` says that this is meant. Raises HistoryError for a day before the map's latest
    version: history is only written forwards.
    """
    return HarvestRecord(history, *history.write(beginning), today)
