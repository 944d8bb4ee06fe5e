"""The row of a harvest: what its beginning refuses and describes, and what its end writes, such as counts and
versions of gone tiles."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Boolean, bindparam, delete, func, insert, select, update

from tileharvest.errors import AlreadyHarvestedError, HistoryError
from tileharvest.history.blocks import record_versions, write_present
from tileharvest.history.change_indexes import store_indexes
from tileharvest.history.connection import BlockStatement
from tileharvest.history.costs import NO_COST, Cost, add_spending
from tileharvest.history.outlines import description_of, size_in
from tileharvest.history.results import found_by, layers_of
from tileharvest.history.schema import (
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
    layers,
    proofs,
    replace_into,
    tiles,
    validators,
    versions,
)
from tileharvest.history.trust import count_outcomes, decide_trust, prove_layers
from tileharvest.tiles.block import Block, bits_of
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection, Row

    from tileharvest.tiles.layers import Layer

_logger = logging.getLogger(__name__)

_ADD_COST: Final = BlockStatement(
    update(harvests)
    .where(
        harvests.c.id == bindparam("its_id"), harvests.c.ended.is_(None) | bindparam("is_over", type_=Boolean)
    )
    .values({name: harvests.c[name] + bindparam(f"more_{name}") for name in Cost._fields})
)
_MORE: Final = tuple(f"more_{name}" for name in Cost._fields)


class HarvestEndedError(HistoryError):
    """This process or another one has ended the harvest. Nothing was written."""

    def __init__(self, harvest: int, reason: str) -> None:
        super().__init__(
            f"harvest {harvest} has ended already ({reason}), perhaps because another one of the same map was"
            " begun; nothing was changed; run again"
        )
        self.reason = reason
        """The word with which it ended, such as `finished`."""


def unfinished_harvest(connection: Connection, map_id: int) -> Row[Any] | None:
    """Returns the row of the map's unfinished harvest, or None."""
    query = select(harvests).where(harvests.c.map == map_id, harvests.c.ended.is_(None))
    return connection.execute(query).one_or_none()


def add_cost(
    connection: Connection, harvest: int, cost: Cost, spent_on: tuple[int, date], *, is_over: bool = False
) -> None:
    """Adds the cost to the harvest, and to what a map has cost on a day. From then on the harvest's row is
    locked until the transaction ends. If the harvest has ended, raises HarvestEndedError and adds nothing,
    unless it may be over."""
    its = dict(zip(_MORE, cost, strict=True))
    if _ADD_COST.execute(connection, {"its_id": harvest, "is_over": is_over, **its}).rowcount == 0:
        raise HarvestEndedError(harvest, str(reason_of(connection, harvest)))
    if cost != NO_COST:
        add_spending(connection, *spent_on, cost)


def reason_of(connection: Connection, harvest: int) -> str | None:
    """Returns the word with which the harvest has ended, or None if it is unfinished."""
    query = select(harvests.c.reason).where(harvests.c.id == harvest)
    reason: str | None = connection.execute(query).scalar()
    return reason


def end_harvest(connection: Connection, harvest: int, ended: datetime, reason: str) -> None:
    """Writes the end and the counts. Raises HarvestEndedError if the harvest has ended already.

    If the harvest is finished, each tile found gone gets a version that says so, the walk trusts what the
    harvest has seen, and the reason why its last run stopped is forgotten. A harvest that asked only pushed
    tiles proves nothing, and nothing is trusted by it.

    Otherwise tiles found gone are not counted. Their results are taken back, unless the harvest was
    interrupted.
    """
    is_finished = reason == FINISHED
    ending = update(harvests).where(harvests.c.id == harvest, harvests.c.ended.is_(None))
    ending = ending.values(ended=ended, reason=reason)
    if is_finished:
        ending = ending.values(stopped=None)
    row = connection.execute(ending.returning(harvests.c.day, harvests.c.walk)).one_or_none()
    if row is None:
        raise HarvestEndedError(harvest, str(reason_of(connection, harvest)))
    counts = count_outcomes(connection, harvest)
    kept = [
        {"harvest": harvest, "layer": layer, "outcome": outcome.value, "tiles": number}
        for (layer, outcome), number in counts.items()
        if is_finished or outcome is not Outcome.GONE
    ]
    if kept:
        connection.execute(insert(harvest_counts), kept)
    is_proving = is_finished and row.walk != PUSHED_WALK
    is_full = is_proving and row.walk in (None, "full")
    decide_trust(connection, harvest, is_complete=is_proving, is_full=is_full)
    if is_finished:
        _record_gone(connection, harvest, row.day)
    elif reason != INTERRUPTED:
        its = blocks.c.layer.in_(layers_of(connection, harvest)) & (blocks.c.harvest == harvest)
        connection.execute(update(blocks).where(its, blocks.c.gone != 0).values(gone=0))
    if is_proving:
        prove_layers(connection, harvest, row.day, row.walk)
        store_indexes(connection, harvest, row.day)


def counts_of(connection: Connection, harvest: int) -> dict[Outcome, int]:
    """Returns the exact number of tiles by outcome, for outcomes that occurred. Reads all blocks of the map
    if the harvest has not ended."""
    counted: Counter[Outcome] = Counter()
    if reason_of(connection, harvest) is None:
        for (_, outcome), number in count_outcomes(connection, harvest).items():
            counted[outcome] += number
    else:
        kept = select(harvest_counts).where(harvest_counts.c.harvest == harvest)
        for row in connection.execute(kept):
            counted[Outcome(row.outcome)] += row.tiles
    return dict(counted)


def _record_gone(connection: Connection, harvest: int, day: date) -> None:
    """Records a version without an image for each tile found gone whose latest version has an image."""
    gone = Version(day, None)
    for layer in layers_of(connection, harvest):
        vanished = [
            Block("", one.zoom, one.column, one.row, mask)
            for one in found_by(connection, harvest, layer, {Outcome.GONE})
            if (mask := one.of(Outcome.GONE) & one.present)
        ]
        for block in vanished:
            record_versions(connection, harvest, day, layer, block, dict.fromkeys(bits_of(block.mask), gone))
            write_present(connection, layer, block)


def refuse_finished(connection: Connection, map_name: str, map_id: int, segment: str) -> None:
    """Raises AlreadyHarvestedError if a harvest of the map and the segment is finished."""
    is_its = (harvests.c.map == map_id) & (harvests.c.segment == segment) & (harvests.c.reason == FINISHED)
    if connection.execute(select(harvests.c.id).where(is_its)).first() is not None:
        raise AlreadyHarvestedError(
            f"map '{map_name}' is already harvested for {segment}; nothing was changed"
        )


def refuse_backwards(connection: Connection, map_name: str, map_id: int, day: date) -> None:
    """Raises HistoryError if the map has versions of a later day. Reads an index of the map's changes."""
    query = select(func.max(changes.c.day)).join_from(changes, layers, layers.c.id == changes.c.layer)
    latest: date | None = connection.execute(query.where(layers.c.map == map_id)).scalar()
    if latest is not None and day < latest:
        raise HistoryError(
            f"the history of map '{map_name}' has versions of {latest} already: history is only written"
            f" forwards, so {day} cannot be harvested; nothing was changed; check this computer's clock"
        )


def part_with_changed_layers(
    connection: Connection, map_id: int, harvest: Row[Any], described: Sequence[Layer]
) -> None:
    """Moves the coarse zooms of each layer whose tiles nest by another factor now into a layer of their own,
    and says so. Their tiles lie elsewhere from this harvest on, and the earlier days must not be shown there.

    Zoom 0 does not depend on the factor: its tiles stay, with all their days.
    """
    known = _known_layers(connection, map_id)
    for layer in described:
        row, factor = known.get(layer.name), layer.pyramid.factor
        if row is None or row.factor == factor:
            continue
        before = f"{layer.name} until {harvest.day}"
        while before in known:
            before += "+"
        moved = insert(layers).values(map=map_id, name=before, factor=row.factor)
        to = connection.execute(moved.returning(layers.c.id)).scalar_one()
        for table in (versions, tiles, blocks, failures, changes, validators):
            connection.execute(
                update(table).where(table.c.layer == row.id, table.c.zoom < 0).values(layer=to)
            )
        for table in (proofs, change_indexes):
            connection.execute(delete(table).where(table.c.layer == row.id))
        earlier = select(harvest_layers).where(
            harvest_layers.c.layer == row.id, harvest_layers.c.harvest != harvest.id
        )
        its = [{**one, "layer": to} for one in connection.execute(earlier).mappings()]
        if its:
            connection.execute(insert(harvest_layers), its)
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
    """Writes the descriptions of a harvest's layers in place of earlier ones. Returns the ids of the
    harvest's layers, by name, also of those that only its earlier runs had. Raises HistoryError if tiles of a
    layer nest by another factor than before."""
    names = [{"map": map_id, "name": layer.name, "factor": layer.pyramid.factor} for layer in described]
    connection.execute(insert_into(layers).on_conflict_do_nothing(), names)
    known = _known_layers(connection, map_id)
    written = []
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
            its = select(harvest_layers.c.description).where(harvest_layers.c.layer == number)
            newest_first = its.order_by(harvest_layers.c.harvest.desc())
            last = connection.execute(newest_first.limit(1)).scalar()
            size = size if last is None else size_in(last)
        said = {"depth": layer.depth, "description": description_of(layer, size), "rendered": layer.rendered}
        written.append({"harvest": harvest, "layer": number, **said})
    connection.execute(replace_into(harvest_layers, "harvest", "layer"), written)
    its_layers = set(layers_of(connection, harvest))
    return {row.name: row.id for row in known.values() if row.id in its_layers}


def _known_layers(connection: Connection, map_id: int) -> dict[str, Row[Any]]:
    rows = connection.execute(select(layers).where(layers.c.map == map_id))
    return {row.name: row for row in rows}
