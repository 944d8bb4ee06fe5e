"""The record of a harvest: it is begun or continued, results are recorded and looked up, and it is ended."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import Text, case, func, insert, literal, or_, select, update

from tileharvest.history.blocks import look_up, record
from tileharvest.history.change_indexes import ground_of, note_readings, withdraw
from tileharvest.history.costs import NO_COST
from tileharvest.history.harvest_row import (
    HarvestEndedError,
    add_cost,
    counts_of,
    describe_layers,
    end_harvest,
    part_with_changed_layers,
    reason_of,
    refuse_backwards,
    refuse_finished,
    unfinished_harvest,
)
from tileharvest.history.outlines import own_map_id, with_size
from tileharvest.history.results import found_in
from tileharvest.history.schema import (
    FINISHED,
    INTERRUPTED,
    PARTIAL,
    PUSHED_WALK,
    changes,
    failures,
    harvest_counts,
    harvest_layers,
    harvests,
    is_finished,
    proofs,
)
from tileharvest.history.schema import layers as known_layers
from tileharvest.history.trust import count_outcomes, distrust, skipped_in, tops_of, unasked_in
from tileharvest.tiles.block import Block, bits_of, blocks_of
from tileharvest.tiles.outcomes import MISSING, THERE, Outcome
from tileharvest.walk.flat import EarlierBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection, Row

    from tileharvest.history.blocks import FoundBlock, KnownBlock
    from tileharvest.history.costs import Cost
    from tileharvest.history.database import History
    from tileharvest.history.results import BlockResults
    from tileharvest.tiles.grid import Tile, TileRange
    from tileharvest.tiles.layers import Layer, Size
    from tileharvest.walk.change_index import ChangedGround, ChangeIndex, StoredIndex

_Answer = TypeVar("_Answer")

_ATTEMPTS: Final = re.compile(r" \(\d+ attempts?\)$")
"""The end of a reason that says how often the tile was asked."""


class HarvestRecord:
    """An unfinished harvest. Get it from `begin`.

    One thread may record while another looks up versions, and other processes may do both at the same time.
    Every method raises KeyError for a layer that the harvest does not have. If a server goes away, each
    method waits for it for up to the history's patience. Areas are given by layer, and may overlap.
    """

    def __init__(
        self,
        history: History,
        row: Row[Any],
        layer_ids: Mapping[str, int],
        today: Callable[[], date] | None,
        *,
        continued: bool,
    ) -> None:
        self.history = history
        self._layer_ids = layer_ids
        self.id: int = row.id
        self._map: int = row.map
        self.day: date = row.day
        """The day of all versions that it records. It is the day on which the harvest began, even if it is
        continued later."""
        self._today = today or (lambda: self.day)
        self.continued = continued
        """Whether another process, or an earlier run, has begun the harvest."""
        self.is_pushed = row.walk == PUSHED_WALK
        """Whether it asks only what a person has pushed."""
        self.identity = f"{row.id}@{row.started.astimezone(UTC).isoformat(timespec='microseconds')}"
        """The name of this harvest, the same in all processes that have a part in it. No other harvest ever
        has it.

        The id alone is not enough: a history that was restored from a backup gives the same ids again.
        """

    def _read(self, function: Callable[..., _Answer], *arguments: Any) -> _Answer:
        """Calls a function of this harvest in a transaction."""
        return self.history.read(lambda connection: function(connection, self.id, *arguments))

    def look_up(self, block: Block) -> KnownBlock:
        """Returns what is known of the block's 64 places, whatever its mask. Its cost does not depend on the
        size of the history. Tiles that this harvest has found gone still have their old version."""
        layer = self._layer_ids[block.layer]
        return self.history.read(lambda connection: look_up(connection, self.id, layer, block))

    def record_block(self, connection: Connection, block: Block, found: FoundBlock, cost: Cost) -> None:
        """Records what was found in a block, and its cost, in a transaction that the caller opens.

        Recording a block again, or the rest of it, changes nothing twice. Costs add up; if the connection to
        a server was lost during the commit, a cost may count twice. `gone` makes no version before `finish`.
        Raises HarvestEndedError if the harvest has ended.
        """
        add_cost(connection, self.id, cost, (self._map, self._today()))
        record(connection, self.id, self.day, self._layer_ids[block.layer], block, found)

    def add_cost(self, cost: Cost) -> None:
        """Adds a cost that came with no block, also after the end of the harvest."""
        spent_on = self._map, self._today()
        self.history.write(lambda connection: add_cost(connection, self.id, cost, spent_on, is_over=True))

    def known_before(self, areas: Mapping[str, Sequence[TileRange]]) -> int:
        """Returns how many tiles of these areas existed when the harvest began: by their latest versions,
        without those that it has added. Each counts once."""
        return self._count(areas, lambda one: one.present & ~one.of(Outcome.ADDED))

    def is_first(self) -> bool:
        """Returns whether no harvest of the map was ever finished. An imported day counts as a harvest."""
        finished = select(harvests.c.id).where(harvests.c.map == self._map, harvests.c.reason == FINISHED)
        return self.history.read(lambda connection: connection.execute(finished.limit(1)).first()) is None

    def expect(self, tiles: int) -> int:
        """Notes how many tiles were known when the harvest began. Returns the first number other than 0 that
        any of its processes has noted."""
        noted = func.coalesce(func.nullif(harvests.c.expected, 0), tiles)
        noting = update(harvests).where(harvests.c.id == self.id).values(expected=noted)
        query = noting.returning(harvests.c.expected)
        return self.history.write(lambda connection: int(connection.execute(query).scalar_one()))

    def stop(self, reason: str) -> bool:
        """Notes why this run ends before the harvest does, such as `budget: 1,000 requests`.

        Returns False, and changes nothing, if another process has noted the same or the harvest has ended.
        The reason is forgotten when the harvest is continued or finished.
        """
        is_news = harvests.c.ended.is_(None) & harvests.c.stopped.is_distinct_from(reason)
        stopping = update(harvests).where(harvests.c.id == self.id, is_news).values(stopped=reason)
        return self.history.write(lambda connection: connection.execute(stopping).rowcount > 0)

    def note_size(self, layer: str, size: Size) -> None:
        """Notes width and height of a layer's tiles, which the site has not said."""
        is_its = (harvest_layers.c.harvest == self.id) & (harvest_layers.c.layer == self._layer_ids[layer])

        def write(connection: Connection) -> None:
            said = connection.execute(select(harvest_layers.c.description).where(is_its)).scalar_one()
            now = update(harvest_layers).where(is_its).values(description=with_size(said, size))
            connection.execute(now)

        self.history.write(write)

    def unasked(self, areas: Mapping[str, Sequence[TileRange]], limit: int) -> list[Block]:
        """Returns tiles that exist by their latest version, and that this harvest has neither asked nor
        skipped. With a block that reaches the `limit` of tiles the list ends."""

        def read(connection: Connection) -> list[Block]:
            found, left = [], limit
            for name, ranges in areas.items():
                for one, mask in unasked_in(connection, self.id, self._layer_ids[name], ranges):
                    found.append(Block(name, one.zoom, one.column, one.row, mask))
                    left -= mask.bit_count()
                    if left <= 0:
                        return found
            return found

        return self.history.read(read)

    def has_result(self, layer: str, areas: Sequence[TileRange]) -> bool:
        """Returns whether this harvest has a result for any tile of these areas."""
        its = self.id, self._layer_ids[layer], areas
        return self.history.read(lambda opened: any(one.asked & mask for one, mask in found_in(opened, *its)))

    def outcomes(self, layer: str, tiles: Sequence[Tile]) -> dict[Tile, Outcome]:
        """Returns the outcomes of these tiles in this harvest. Tiles without a result are left out."""
        blocks = blocks_of(layer, tiles)
        known = self.history.read(lambda _: [self.look_up(block) for block in blocks])
        return {
            block.tile(bit): outcome
            for block, one in zip(blocks, known, strict=True)
            for outcome, mask in one.outcomes.items()
            for bit in bits_of(mask & block.mask)
        }

    def earlier(self, layer: str, areas: Sequence[TileRange]) -> dict[tuple[int, int], EarlierBlock]:
        """Returns by column and row what harvests have found in the blocks of these areas, which are all that
        there is of a layer of one zoom."""
        layer_id, place = self._layer_ids[layer], (changes.c.x, changes.c.y)
        its = (changes.c.layer == layer_id, changes.c.zoom == 0)
        days_of_change = select(*place, func.count()).where(*its).group_by(*place)
        others = select(harvests.c.id, harvests.c.day).where(harvests.c.id != self.id)

        def read(connection: Connection) -> dict[tuple[int, int], EarlierBlock]:
            days = {row.id: row.day for row in connection.execute(others)}
            changed = {(x, y): count for x, y, count in connection.execute(days_of_change)}
            return {
                (one.column, one.row): EarlierBlock(
                    days.get(one.harvest),
                    one.reached & ~one.failing,
                    one.present,
                    changed.get(one.cover[1:], 0),
                )
                for one, _ in found_in(connection, self.id, layer_id, areas)
            }

        return self.history.read(read)

    def ended(self) -> str | None:
        """Returns the reason with which any process has ended this harvest, or None if it is unfinished."""
        return self._read(reason_of)

    def vanished(self, areas: Mapping[str, Sequence[TileRange]]) -> tuple[int, int]:
        """Returns how many of the present tiles this harvest has found gone, and how many it has neither
        asked nor skipped, as those below a gone tile. If most have vanished, the map has moved."""

        def read(connection: Connection) -> tuple[int, int]:
            unasked = 0
            for name, ranges in areas.items():
                for _, mask in unasked_in(connection, self.id, self._layer_ids[name], ranges):
                    unasked += mask.bit_count()
            return self._count(areas, lambda one: one.of(Outcome.GONE) & one.present), unasked

        return self.history.read(read)

    def counts(self) -> dict[Outcome, int]:
        """Returns the exact number of tiles by outcome so far, for outcomes that occurred. Provisional `gone`
        ones count. Reads all blocks of the map."""
        return self._read(counts_of)

    def why_failed(self) -> dict[str, int]:
        """Returns the reasons of failed tiles, each with its number of tiles, the most frequent first."""
        its = failures.c.layer.in_(self._layer_ids.values()) & (failures.c.harvest == self.id)
        query = select(failures.c.reason, func.count()).where(its).group_by(failures.c.reason)
        reasons: Counter[str] = Counter()
        for reason, count in self.history.read(lambda connection: connection.execute(query).all()):
            reasons[_ATTEMPTS.sub("", reason)] += count
        return dict(reasons.most_common())

    def found(self) -> dict[str, int]:
        """Returns by layer how many tiles this harvest has found so far, without missing and failed ones.
        Reads all blocks of the map."""
        names = {number: name for name, number in self._layer_ids.items()}
        found = dict.fromkeys(self._layer_ids, 0)
        for (layer, outcome), tiles in self._read(count_outcomes).items():
            if outcome in THERE:
                found[names[layer]] += tiles
        return found

    def last_complete(self) -> dict[str, int]:
        """Returns by layer how many tiles the map's last other complete harvest has found, skipped ones too.
        A layer that it did not have is left out."""
        last = (
            select(harvests.c.id)
            .where(harvests.c.map == self._map, harvests.c.id != self.id)
            .where(is_finished(harvests, but=PARTIAL))
            .order_by(harvests.c.day.desc(), harvests.c.id.desc())
            .limit(1)
            .scalar_subquery()
        )
        query = (
            select(harvest_counts.c.layer, func.sum(harvest_counts.c.tiles))
            .where(harvest_counts.c.harvest == last)
            .where(harvest_counts.c.outcome.not_in([outcome.value for outcome in MISSING]))
            .group_by(harvest_counts.c.layer)
        )
        rows = self.history.read(lambda connection: connection.execute(query).all())
        found = {layer: int(tiles) for layer, tiles in rows}
        return {name: found[layer] for name, layer in self._layer_ids.items() if layer in found}

    def finish(self, ended: datetime, reason: str) -> bool:
        """Ends the harvest in one transaction, which writes its end, its counts and the versions of gone
        tiles.

        `reason` is a word such as `finished` or `moved`. If it is `finished`, each tile found gone gets a
        version without an image, in place of one of the same day. Otherwise these tiles count as not asked.
        `ended` must have a time zone. If another process has ended the harvest, nothing is changed: returns
        False if it gave the same reason, and raises HarvestEndedError if it gave another one.
        """
        try:
            self.history.write(lambda connection: end_harvest(connection, self.id, ended, reason))
        except HarvestEndedError as error:
            if error.reason != reason:
                raise
            return False
        return True

    def note_walk(self, way: str, reason: str, kept: str | None = None) -> None:
        """Notes how the harvest walks, such as `full` or `pruned`, and why, in place of an earlier note.

        A harvest that began pruned is never noted as full, because it has skipped something. Once trust was
        withdrawn it stays `repaired`. `kept` says which zones and zooms the harvest is for, in a form that is
        equal for equal ones; None leaves the earlier note. Nothing is noted after the harvest's end: a worker
        that comes too late would decide by what the harvest itself has proved.
        """
        values: dict[str, Any] = {
            "walk": case((harvests.c.walk.in_(("pruned", "repaired")), harvests.c.walk), else_=way),
            "walk_reason": reason,
        }
        if kept is not None:
            is_same = or_(harvests.c.kept.is_(None), harvests.c.kept == kept)
            # Zones or zooms were changed before the harvest was continued. No other value equals "several".
            values["kept"] = case((is_same, literal(kept, Text)), else_="several")
        noting = update(harvests).where(harvests.c.id == self.id, harvests.c.ended.is_(None)).values(values)
        self.history.write(lambda connection: connection.execute(noting))

    def tops(self, layer: str) -> list[Block]:
        """Returns the tiles below which this harvest asks nothing. There are none once trust in the layer was
        withdrawn."""
        return [Block(layer, *one) for one in self._read(tops_of, self._layer_ids[layer])]

    def skipped(self, layer: str, areas: Sequence[TileRange]) -> list[Block]:
        """Returns the known tiles of these areas that are skipped: those below a top, and those outside of a
        change index's ground.

        Skipped tiles that have a result all the same are among them, so that an audit does not change the
        list while it goes through it, except for new tiles that it finds.
        """
        return self._read(
            lambda *its: [
                Block(layer, one.zoom, one.column, one.row, mask) for one, mask in skipped_in(*its)
            ],
            self._layer_ids[layer],
            areas,
        )

    def read_indexes(
        self, read: Mapping[str, ChangeIndex], relied_on: Mapping[str, StoredIndex]
    ) -> dict[str, ChangedGround]:
        """Notes the change indexes of the site, by layer, before any tile is asked for.

        Returns by layer the ground to which the walk keeps, for layers whose index is relied on and names
        less than everything. Nothing is noted any more once the harvest's walk is noted: the index of the
        next harvest has later changes. Any process of the harvest may note it, because the one that
        began it may have been killed before.
        """

        def write(connection: Connection) -> dict[str, ChangedGround]:
            # The row is locked, so that only one of several processes notes its readings.
            its_walk = select(harvests.c.walk).where(harvests.c.id == self.id).with_for_update()
            # Before the walk is noted, no process of the harvest asks for a tile.
            if connection.execute(its_walk).scalar_one() is None:
                note_readings(connection, self.id, self._layer_ids, read, relied_on)
            grounds = {name: ground_of(connection, self.id, layer) for name, layer in self._layer_ids.items()}
            return {name: ground for name, ground in grounds.items() if ground is not None}

        return self.history.write(write)

    def noted_ground(self, layer: str) -> ChangedGround | None:
        """Returns the ground to which the walk of a layer kept when it began, relied on or not, or None."""
        return self._read(partial(ground_of, is_kept=False), self._layer_ids[layer])

    def distrust(self, layer: str, reason: str, *, is_untold: bool = False) -> list[Block]:
        """Withdraws the layer's proof and all trust in what is remembered of it.

        Call it when this harvest has found a change in what it had skipped. `is_untold` says that the layer's
        change index did not name the change; then the index is not relied on any more either. Do not use
        marks any more that were read before.

        Returns the tops. They are to be asked again, whatever results they have, and the walk goes down from
        them. Call this again, also after a kill, until it returns none: it leaves out tops that were seen or
        have failed since, and adds those at which another process has stopped in the meantime. The first
        reason is kept. The harvest gives no new proof at its end. Raises HarvestEndedError if it has ended.
        """
        layer_id = self._layer_ids[layer]

        def write(connection: Connection) -> list[Block]:
            add_cost(connection, self.id, NO_COST, (self._map, self._today()))
            if is_untold:
                withdraw(connection, self.id, self.day, layer_id, reason)
            tops = distrust(connection, self.id, self.day, layer_id, reason)
            return [Block(layer, *one) for one in tops]

        return self.history.write(write)

    def distrusted(self) -> dict[str, str]:
        """Returns the layers in which any process of this harvest has withdrawn trust, with the reasons."""
        query = (
            select(known_layers.c.name, proofs.c.withdrawn)
            .join_from(proofs, known_layers, known_layers.c.id == proofs.c.layer)
            .where(proofs.c.harvest == self.id, proofs.c.withdrawn.is_not(None))
        )
        rows = self.history.read(lambda connection: connection.execute(query).all())
        return {name: reason for name, reason in rows}  # noqa: C416

    def _count(self, areas: Mapping[str, Sequence[TileRange]], mask: Callable[[BlockResults], int]) -> int:
        return self.history.read(
            lambda connection: sum(
                (mask(one) & places).bit_count()
                for layer, ranges in areas.items()
                for one, places in found_in(connection, self.id, self._layer_ids[layer], ranges)
            )
        )


def begin(
    history: History,
    map_name: str,
    segment: str,
    day: date,
    started: datetime,
    renderer: str,
    layers: Sequence[Layer],
    *,
    again: bool = False,
    pushed: bool = False,
    today: Callable[[], date] | None = None,
) -> HarvestRecord:
    """Continues the unfinished harvest of this map and segment, or begins a new one.

    `layers` are as the site describes them now. A continued harvest keeps its day and start, and takes this
    description. A new harvest first ends the map's other unfinished harvest as `interrupted`: its results
    stay, but tiles that it found gone are neither recorded nor counted. If several processes call this at
    once for one map and segment, they get the same harvest, and it is `continued` for all but one. Costs are
    counted on the day that `today` returns when they arise, or on the harvest's own day.

    `again` begins a new harvest although one of the segment is finished. `pushed` says that the new harvest
    asks only what a person has pushed. If such a harvest is unfinished, `again` ends it and begins one that
    asks for everything.

    Raises AlreadyHarvestedError if a harvest of this map and segment is finished, unless `again` or `pushed`
    is set. Raises HistoryError for a day before the map's latest version, because history is only written
    forwards. Nothing is changed then. Raises ValueError if there are no layers, or if a layer is there twice.
    """
    if len({layer.name for layer in layers}) != len(layers) or not layers:
        raise ValueError("a harvest has at least one layer, and each once")
    new = {"segment": segment, "day": day, "started": started, "renderer": renderer}
    inserted: list[int] = []

    def write(connection: Connection) -> HarvestRecord:
        map_id = own_map_id(connection, map_name)
        row = unfinished_harvest(connection, map_id)
        if row is not None and row.segment == segment and not (row.walk == PUSHED_WALK and again):
            # Forgets why its last run ended.
            connection.execute(update(harvests).where(harvests.c.id == row.id).values(stopped=None))
        else:
            if not (again or pushed):
                refuse_finished(connection, map_name, map_id, segment)
            refuse_backwards(connection, map_name, map_id, day)
            if row is not None:
                end_harvest(connection, row.id, started, INTERRUPTED)
            inserting = insert(harvests).values(map=map_id, walk=PUSHED_WALK if pushed else None, **new)
            row = connection.execute(inserting.returning(*harvests.c)).one()
            # If the connection is lost during the commit, this is called again, and may find its own row.
            inserted.append(row.id)
        part_with_changed_layers(connection, map_id, row, layers)
        ids = describe_layers(connection, map_id, row.id, layers)
        return HarvestRecord(history, row, ids, today, continued=row.id not in inserted)

    return history.write(write)
