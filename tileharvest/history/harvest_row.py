"""The row of a harvest: how it is begun, and what its end writes, such as counts and versions of gone
tiles."""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from tileharvest.errors import AlreadyHarvestedError, HistoryError
from tileharvest.history.blocks import record_versions
from tileharvest.history.change_indexes import store_indexes
from tileharvest.history.connection import in_parts
from tileharvest.history.costs import COST_COLUMNS
from tileharvest.history.errors import HarvestEndedError
from tileharvest.history.outlines import description_of, own_map_id, size_in
from tileharvest.history.proofs import prove_layers
from tileharvest.history.results import ITS_LAYERS, count_outcomes, found_by
from tileharvest.history.schema import (
    BLOCK,
    FINISHED,
    INTERRUPTED,
    PUSHED_WALK,
    blocks,
    change_indexes,
    changes,
    failures,
    harvest_counts,
    harvest_layers,
    harvests,
    insert_into,
    is_block,
    layers,
    proofs,
    replace_into,
    tiles,
    validators,
    version_row,
    versions,
)
from tileharvest.history.trust import count_skipped, decide_trust
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection, Row

    from tileharvest.history.costs import Cost
    from tileharvest.tiles.layers import Layer

_logger = logging.getLogger(__name__)

_ITS_BLOCK: Final = tuple(f"its_{name}" for name in BLOCK)
_GONE_AT_ONCE: Final = 5_000
"""The most tiles in one statement. Their rows take a few megabytes."""

# Each statement is made once: to make one takes longer than to execute it.
_OF_MAP: Final = harvests.c.map == bindparam("in_map")
_UNFINISHED: Final = select(harvests).where(_OF_MAP, harvests.c.ended.is_(None))
_REASON: Final = select(harvests.c.reason).where(harvests.c.id == bindparam("in_harvest"))
_END: Final = (
    update(harvests)
    .where(harvests.c.id == bindparam("in_harvest"), harvests.c.ended.is_(None))
    .values(ended=bindparam("at"), reason=bindparam("why"))
    .returning(harvests.c.day, harvests.c.walk)
)
_FINISH: Final = _END.values(stopped=None)
_GO_ON: Final = update(harvests).where(harvests.c.id == bindparam("in_harvest")).values(stopped=None)
_KEPT_COUNTS: Final = select(harvest_counts).where(harvest_counts.c.harvest == bindparam("in_harvest"))
_WHY_FAILED: Final = (
    select(failures.c.reason, func.count())
    .where(failures.c.layer.in_(ITS_LAYERS), failures.c.harvest == bindparam("in_harvest"))
    .group_by(failures.c.reason)
)
_ATTEMPTS: Final = re.compile(r" \(\d+ attempts?\)$")
"""The end of a reason that says how often the tile was asked."""
_TAKE_BACK_GONE: Final = (
    update(blocks)
    .where(blocks.c.layer.in_(ITS_LAYERS), blocks.c.harvest == bindparam("in_harvest"), blocks.c.gone != 0)
    .values(gone=0)
)
_VANISH: Final = update(blocks).where(is_block(blocks)).values(present=bindparam("still_present"))
_NEW: Final = (
    insert(harvests)
    .values(
        {name: bindparam(name) for name in ("map", "segment", "day", "started", "renderer", "walk")}
        | dict.fromkeys(("requests", "received_bytes", "stored_bytes"), 0)
    )
    .returning(*harvests.c)
)
_LAYERS: Final = select(layers).where(layers.c.map == bindparam("in_map"))
_INSERT_LAYERS: Final = (
    insert_into(layers)
    .values({name: bindparam(name) for name in ("map", "name", "factor")})
    .on_conflict_do_nothing()
)
_LAST_DESCRIPTION: Final = (
    select(harvest_layers.c.description)
    .where(harvest_layers.c.layer == bindparam("of_layer"))
    .order_by(harvest_layers.c.harvest.desc())
    .limit(1)
)
_LAYERS_OF_HARVEST: Final = (
    select(layers.c.name, layers.c.id)
    .join_from(layers, harvest_layers, harvest_layers.c.layer == layers.c.id)
    .where(harvest_layers.c.harvest == bindparam("in_harvest"))
)
_ADD_COST: Final = (
    update(harvests)
    .where(harvests.c.id == bindparam("its_id"))
    .values({name: harvests.c[name] + bindparam(f"more_{name}") for name in COST_COLUMNS})
)
_ADD_COST_UNLESS_ENDED: Final = _ADD_COST.where(harvests.c.ended.is_(None))
_FINISHED_AT: Final = select(func.max(harvests.c.ended)).where(
    _OF_MAP, harvests.c.segment == bindparam("in_segment"), harvests.c.reason == FINISHED
)
_LATER: Final = select(harvests.c.id).where(_OF_MAP, harvests.c.day > bindparam("on_day")).limit(1)


def unfinished_harvest(connection: Connection, map_id: int) -> Row[Any] | None:
    """Returns the row of the map's unfinished harvest, or None."""
    return connection.execute(_UNFINISHED, {"in_map": map_id}).one_or_none()


def add_cost(connection: Connection, harvest: int, cost: Cost, *, unless_ended: bool) -> None:
    """Adds the cost to the harvest. Its row is locked from then on until the transaction ends.

    With `unless_ended` it raises HarvestEndedError, and adds nothing, if the harvest has ended.
    """
    more = {f"more_{name}": getattr(cost, name) for name in COST_COLUMNS}
    adding = _ADD_COST_UNLESS_ENDED if unless_ended else _ADD_COST
    if connection.execute(adding, {"its_id": harvest, **more}).rowcount == 0:
        _refuse_ended(connection, harvest)


def reason_of(connection: Connection, harvest: int) -> str | None:
    """Returns the word with which the harvest has ended, or None if it is unfinished."""
    reason: str | None = connection.execute(_REASON, {"in_harvest": harvest}).scalar()
    return reason


def _refuse_ended(connection: Connection, harvest: int) -> None:
    reason = reason_of(connection, harvest)
    if reason is not None:
        raise HarvestEndedError.of(harvest, reason)


def end_harvest(
    connection: Connection, harvest: int, ended: datetime, reason: str, *, finalise_gone: bool = False
) -> None:
    """Writes the end and the counts. Raises HarvestEndedError if the harvest has ended already.

    With `finalise_gone` the harvest is complete: each tile found gone gets a version that says so, and
    the walk trusts what the harvest has seen. A harvest that asked only pushed tiles proves nothing, and
    nothing is trusted by it.

    Without `finalise_gone` tiles found gone are not counted. Their results are taken back, unless the
    harvest was interrupted. If the harvest is finished, the reason why its last run stopped is forgotten.
    """
    its, ending = {"in_harvest": harvest}, _FINISH if reason == FINISHED else _END
    row = connection.execute(ending, {**its, "at": ended, "why": reason}).one_or_none()
    if row is None:
        _refuse_ended(connection, harvest)
        return
    counts = _counted(connection, harvest)
    kept = [row for row in counts if finalise_gone or row["outcome"] != Outcome.GONE.value]
    if kept:
        connection.execute(insert(harvest_counts), kept)
    is_proving = finalise_gone and row.walk != PUSHED_WALK
    decide_trust(connection, harvest, is_complete=is_proving)
    if finalise_gone:
        _record_gone(connection, harvest, row.day)
    elif reason != INTERRUPTED:
        connection.execute(_TAKE_BACK_GONE, its)
    if is_proving:
        prove_layers(connection, harvest)
        store_indexes(connection, harvest, row.day)


def counts_of(connection: Connection, harvest: int) -> dict[Outcome, int]:
    """Returns the exact number of tiles by outcome, for outcomes that occurred. Reads all blocks of the map
    if the harvest has not ended."""
    if reason_of(connection, harvest) is None:
        rows = _counted(connection, harvest)
    else:
        kept = connection.execute(_KEPT_COUNTS, {"in_harvest": harvest})
        rows = [dict(row) for row in kept.mappings()]
    counted: Counter[Outcome] = Counter()
    for row in rows:
        counted[Outcome(row["outcome"])] += row["tiles"]
    return dict(counted)


def why_failed(connection: Connection, harvest: int) -> dict[str, int]:
    """Returns the reasons of failed tiles, each with its number of tiles, the most frequent first."""
    reasons: Counter[str] = Counter()
    for reason, count in connection.execute(_WHY_FAILED, {"in_harvest": harvest}):
        reasons[_ATTEMPTS.sub("", reason)] += count
    return dict(reasons.most_common())


def _counted(connection: Connection, harvest: int) -> list[dict[str, Any]]:
    """Returns the rows of `harvest_counts` that follow from the results. Reads all blocks of the map."""
    found = count_outcomes(connection, harvest)
    skipped = count_skipped(connection, harvest)
    found |= {(layer, Outcome.SKIPPED): count for layer, count in skipped.items()}
    return [
        {"harvest": harvest, "layer": layer, "outcome": outcome.value, "tiles": count}
        for (layer, outcome), count in found.items()
    ]


def _record_gone(connection: Connection, harvest: int, day: date) -> None:
    """Records a version without an image for each tile found gone whose latest version has an image. Takes
    about 40 microseconds of CPU for each tile."""
    gone = Version(day, None)
    for layer in connection.execute(ITS_LAYERS, {"in_harvest": harvest}).scalars().all():
        rows, vanished = [], []
        for one in found_by(connection, harvest, layer):
            if mask := one.of(Outcome.GONE) & one.present:
                rows += [version_row((layer, *cell), gone, harvest) for cell in one.cells(mask)]
                its = dict(zip(_ITS_BLOCK, (layer, one.zoom, one.column, one.row), strict=True))
                vanished.append({**its, "still_present": one.present & ~mask})
        for part in in_parts(rows, _GONE_AT_ONCE):
            record_versions(connection, part)
        if vanished:
            connection.execute(_VANISH, vanished)


@dataclass(slots=True)
class Beginning:
    """Begins a harvest, or continues the unfinished one of its segment, within a transaction.

    Raises ValueError if there are no layers, or if a layer is there twice.
    """

    map_name: str
    segment: str
    day: date
    started: datetime
    """With a time zone."""
    renderer: str
    layers: Sequence[Layer]
    """The layers as the site describes them now."""
    again: bool = False
    """Whether a new harvest is begun although one of the segment is finished."""
    pushed: bool = False
    """Whether the new harvest asks only what a person has pushed. If such a harvest is unfinished, `again`
    ends it and begins one that asks for everything."""
    _inserted: int | None = field(default=None, init=False)
    """The id that an earlier call has inserted. Its transaction may have been committed or not."""

    def __post_init__(self) -> None:
        if len({layer.name for layer in self.layers}) != len(self.layers) or not self.layers:
            raise ValueError("a harvest has at least one layer, and each once")

    def __call__(self, connection: Connection) -> tuple[Row[Any], bool, dict[str, int]]:
        """Returns the row of the harvest, whether another process or an earlier run has begun it, and the ids
        of its layers by name.

        It can be called again if the connection was lost during the commit.
        """
        map_id = own_map_id(connection, self.map_name)
        row = unfinished_harvest(connection, map_id)
        if row is not None and row.segment == self.segment and not (row.walk == PUSHED_WALK and self.again):
            # Forgets why its last run ended.
            connection.execute(_GO_ON, {"in_harvest": row.id})
        else:
            row = self._insert(connection, map_id, row)
        continued = row.id != self._inserted
        _part_with_changed_layers(connection, map_id, row, self.layers)
        ids = describe_layers(connection, map_id, row.id, self.layers)
        if continued:
            # Its earlier runs may have had other layers.
            its_layers = connection.execute(_LAYERS_OF_HARVEST, {"in_harvest": row.id})
            ids = {name: id_ for name, id_ in its_layers}  # noqa: C416
        return row, continued, ids

    def _insert(self, connection: Connection, map_id: int, other: Row[Any] | None) -> Row[Any]:
        if not (self.again or self.pushed):
            self._refuse_finished(connection, map_id)
        self._refuse_backwards(connection, map_id)
        if other is not None:
            end_harvest(connection, other.id, self.started, INTERRUPTED)
        new = {
            "map": map_id,
            "segment": self.segment,
            "day": self.day,
            "started": self.started,
            "renderer": self.renderer,
            "walk": PUSHED_WALK if self.pushed else None,
        }
        row = connection.execute(_NEW, new).one()
        self._inserted = row.id
        return row

    def _refuse_finished(self, connection: Connection, map_id: int) -> None:
        its = {"in_map": map_id, "in_segment": self.segment}
        ended: datetime | None = connection.execute(_FINISHED_AT, its).scalar()
        if ended is not None:
            raise AlreadyHarvestedError(
                f"map '{self.map_name}' is already harvested for {self.segment}, since"
                f" {ended:%Y-%m-%d %H:%M} UTC; nothing was changed"
            )

    def _refuse_backwards(self, connection: Connection, map_id: int) -> None:
        """Raises HistoryError if the map has versions of a later day.

        Reads an index of all versions of the map, but only if any of its harvests is of a later day."""
        if connection.execute(_LATER, {"in_map": map_id, "on_day": self.day}).first() is None:
            return
        its_layers = select(layers.c.id).where(layers.c.map == map_id)
        query = select(func.max(versions.c.day)).where(versions.c.layer.in_(its_layers))
        latest: date | None = connection.execute(query).scalar()
        if latest is not None and self.day < latest:
            raise HistoryError(
                f"the history of map '{self.map_name}' has versions of {latest} already: history is only"
                f" written forwards, so {self.day} cannot be harvested; nothing was changed; check this"
                " computer's clock"
            )


def _part_with_changed_layers(
    connection: Connection, map_id: int, harvest: Row[Any], described: Sequence[Layer]
) -> None:
    """Moves the coarse zooms of each layer whose tiles nest by another factor now into a layer of their own,
    and says so. Their tiles lie elsewhere from this harvest on, and the earlier days must not be shown there.

    Zoom 0 does not depend on the factor: its tiles stay, with all their days.
    """
    known = {row.name: row for row in connection.execute(_LAYERS, {"in_map": map_id})}
    for layer in described:
        row, factor = known.get(layer.name), layer.pyramid.factor
        if row is None or row.factor == factor:
            continue
        before = f"{layer.name} until {harvest.day}"
        while before in known:
            before += "+"
        connection.execute(_INSERT_LAYERS, {"map": map_id, "name": before, "factor": row.factor})
        to = select(layers.c.id).where(layers.c.map == map_id, layers.c.name == before).scalar_subquery()
        for table in (versions, tiles, blocks, failures, changes, validators):
            connection.execute(
                update(table).where(table.c.layer == row.id, table.c.zoom < 0).values(layer=to)
            )
        for table in (proofs, change_indexes):
            connection.execute(delete(table).where(table.c.layer == row.id))
        kept = [column for column in harvest_layers.c if column.name != "layer"]
        earlier = select(*kept, to.label("layer")).where(
            harvest_layers.c.layer == row.id, harvest_layers.c.harvest != harvest.id
        )
        names = [*(column.name for column in kept), "layer"]
        connection.execute(insert(harvest_layers).from_select(names, earlier))
        connection.execute(update(layers).where(layers.c.id == row.id).values(factor=factor))
        _logger.warning(
            "layer %s: its tiles nest by %d now and by %d before, so coarse tiles lie elsewhere: the coarse"
            " zooms begin anew, and their earlier days are kept as layer '%s'",
            layer.name,
            factor,
            row.factor,
            before,
        )


def describe_layers(
    connection: Connection, map_id: int, harvest: int, described: Sequence[Layer]
) -> dict[str, int]:
    """Writes the descriptions of a harvest's layers in place of earlier ones. Returns the ids of these
    layers, by name. Raises HistoryError if tiles of a layer nest by another factor than before."""
    names = [{"map": map_id, "name": layer.name, "factor": layer.pyramid.factor} for layer in described]
    connection.execute(_INSERT_LAYERS, names)
    known = {row.name: row for row in connection.execute(_LAYERS, {"in_map": map_id})}
    ids, written = {}, []
    for layer in described:
        number, factor = known[layer.name].id, known[layer.name].factor
        if factor != layer.pyramid.factor:
            raise HistoryError(
                f"layer '{layer.name}': its tiles nest by {layer.pyramid.factor} now and by {factor} in the"
                " history, so coarse tiles lie elsewhere; nothing was changed; give the map another name in"
                " maps.toml to begin its history anew"
            )
        size = layer.tile_size
        if not layer.tells_size:
            last = connection.execute(_LAST_DESCRIPTION, {"of_layer": number}).scalar()
            size = size if last is None else size_in(last)
        said = {"depth": layer.depth, "description": description_of(layer, size), "rendered": layer.rendered}
        written.append({"harvest": harvest, "layer": number, **said})
        ids[layer.name] = number
    connection.execute(replace_into(harvest_layers, "harvest", "layer"), written)
    return ids
