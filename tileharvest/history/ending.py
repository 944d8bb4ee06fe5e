"""Ending a harvest: what was provisional is settled or taken back, the counts are kept."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, literal, select, update

from tileharvest.history.areas import is_provisionally_gone
from tileharvest.history.errors import HarvestEndedError
from tileharvest.history.inserting import insert_into
from tileharvest.history.proofs import prove_layers
from tileharvest.history.recording import counting
from tileharvest.history.schema import (
    BLOCK_LEVELS,
    FINISHED,
    changes,
    harvest_counts,
    harvests,
    layers,
    tiles,
    versions,
)
from tileharvest.history.trust import count_skipped, settle
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from datetime import date, datetime

    from sqlalchemy import ColumnElement, Connection, Select, Update


def end(
    connection: Connection, harvest: int, ended: datetime, reason: str, *, is_complete: bool = False
) -> None:
    """Keeps the counts and the end; why its last run ended only where it was not finished. Raises
    HarvestEndedError when the harvest has ended already.

    What is still provisionally gone is not counted: counted are the versions that were recorded. What was
    seen on the way is not trusted, unless `end_and_settle` says that it may be.
    """
    ending = (
        update(harvests)
        .where(harvests.c.id == harvest, harvests.c.ended.is_(None))
        .values({"ended": ended, "reason": reason} | ({"stopped": None} if reason == FINISHED else {}))
    )
    if connection.execute(ending).rowcount == 0:
        refuse_ended(connection, harvest)
    _keep_counts(connection, harvest, tiles.c.outcome != Outcome.GONE.value)
    _keep_count_of_skipped(connection, harvest)
    settle(connection, harvest, is_complete=is_complete)


def end_and_settle(connection: Connection, dialect: str, harvest: int, ended: datetime, reason: str) -> None:
    """As `end`; and each tile found gone gets the version that says so. For a harvest that is complete."""
    end(connection, harvest, ended, reason, is_complete=True)
    _keep_counts(connection, harvest, tiles.c.outcome == Outcome.GONE.value)
    _record_gone(connection, dialect, harvest)
    prove_layers(connection, dialect, harvest)


def end_and_take_back(connection: Connection, harvest: int, ended: datetime, reason: str) -> None:
    """As `end`; and nothing remains of what was found gone."""
    end(connection, harvest, ended, reason)
    gone = _of_its_map(harvest) & is_provisionally_gone(harvest)
    connection.execute(update(tiles).where(gone).values(harvest=None, outcome=None, reason=None))


def note_stop(connection: Connection, harvest: int, reason: str) -> bool:
    """Keeps why a run ends before its harvest does; False where that is noted, or the harvest has ended."""
    unfinished = update(harvests).where(harvests.c.id == harvest, harvests.c.ended.is_(None))
    is_news = harvests.c.stopped.is_distinct_from(reason)
    return connection.execute(unfinished.where(is_news).values(stopped=reason)).rowcount > 0


def reason_of(connection: Connection, harvest: int) -> str | None:
    """With which the harvest has ended; None while it has not."""
    reason: str | None = connection.execute(
        select(harvests.c.reason).where(harvests.c.id == harvest)
    ).scalar()
    return reason


def refuse_ended(connection: Connection, harvest: int) -> None:
    """Raises HarvestEndedError when the harvest has ended."""
    reason = reason_of(connection, harvest)
    if reason is not None:
        error = HarvestEndedError(
            f"harvest {harvest} has ended already ({reason}), perhaps because another one of the same map was"
            " begun; nothing was changed; run again"
        )
        error.reason = reason
        raise error


def count_outcomes(harvest: int) -> Select[Any]:
    """Layer, outcome and number of tiles, from the results. Reads all tiles of the map."""
    return (
        select(tiles.c.layer, tiles.c.outcome, func.count().label("tiles"))
        .where(_of_its_map(harvest), tiles.c.harvest == harvest)
        .group_by(tiles.c.layer, tiles.c.outcome)
    )


def _keep_counts(connection: Connection, harvest: int, condition: ColumnElement[bool]) -> None:
    counted = count_outcomes(harvest).where(condition).subquery()
    rows = select(literal(harvest), counted.c.layer, counted.c.outcome, counted.c.tiles)
    columns = ["harvest", "layer", "outcome", "tiles"]
    connection.execute(insert(harvest_counts).from_select(columns, rows))


def counts(connection: Connection, harvest: int) -> dict[Outcome, int]:
    """Tiles per outcome, only those that occurred; so far, while the harvest is unfinished.

    Reads all tiles of the map then.
    """
    kept = select(harvest_counts).where(harvest_counts.c.harvest == harvest)
    is_ended = reason_of(connection, harvest) is not None
    counted: Counter[Outcome] = Counter()
    for row in connection.execute(kept if is_ended else count_outcomes(harvest)):
        counted[Outcome(row.outcome)] += row.tiles
    if not is_ended:
        counted.update({Outcome.SKIPPED: sum(count_skipped(connection, harvest).values())})
    return {outcome: count for outcome, count in counted.items() if count}


def _keep_count_of_skipped(connection: Connection, harvest: int) -> None:
    rows = [
        {"harvest": harvest, "layer": layer, "outcome": Outcome.SKIPPED.value, "tiles": count}
        for layer, count in count_skipped(connection, harvest).items()
    ]
    if rows:
        connection.execute(insert(harvest_counts), rows)


def _record_gone(connection: Connection, dialect: str, harvest: int) -> None:
    """Only where the latest version has an image: what is gone already is not gone again."""
    day = connection.execute(select(harvests.c.day).where(harvests.c.id == harvest)).scalar_one()
    had_image = _of_its_map(harvest) & is_provisionally_gone(harvest) & versions.c.sha1.is_not(None)
    _count_changes(connection, dialect, day, had_image)
    place = [tiles.c.layer, tiles.c.zoom, tiles.c.x, tiles.c.y]
    gone = (
        select(*place, literal(day), literal(harvest))
        .join_from(tiles, versions, versions.c.id == tiles.c.version)
        .where(had_image)
    )
    names = ["layer", "zoom", "x", "y", "day"]
    statement = insert_into(dialect, versions).from_select([*names, "harvest"], gone)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[versions.c[name] for name in names],
            set_={
                **dict.fromkeys(("sha1", "extension", "size", "etag", "last_modified")),
                "harvest": statement.excluded.harvest,
            },
        )
    )
    connection.execute(_point_at_gone(harvest, day))


def _count_changes(connection: Connection, dialect: str, day: date, condition: ColumnElement[bool]) -> None:
    """Before the versions are recorded: whose latest one is of the day has been counted for it already."""
    # Grouped outside, where the block has a name: PostgreSQL takes no two parameters for the same.
    changed = (
        select(
            tiles.c.layer,
            tiles.c.zoom,
            _block_centre(tiles.c.x).label("x"),
            _block_centre(tiles.c.y).label("y"),
        )
        .join_from(tiles, versions, versions.c.id == tiles.c.version)
        .where(condition, versions.c.day < day)
        .subquery("changed")
    )
    block = list(changed.c)
    counted = select(*block, literal(day), func.count()).group_by(*block)
    rows = insert_into(dialect, changes).from_select(list(changes.c.keys()), counted)
    connection.execute(counting(rows))


def _block_centre(centre: ColumnElement[int]) -> ColumnElement[int]:
    """Along one axis, of the block of `changes` that a tile with this centre lies in.

    As `Tile.ancestor` has it. SQLite and PostgreSQL shift to the right as Python does, rounding downwards.
    """
    reach = literal(1).bitwise_lshift(BLOCK_LEVELS - tiles.c.zoom)
    bits = BLOCK_LEVELS + 1 - tiles.c.zoom
    return centre.bitwise_rshift(bits).bitwise_lshift(bits) + reach


def _point_at_gone(harvest: int, day: date) -> Update:
    gone = (
        select(versions.c.id)
        .where(versions.c.day == day)
        .where(*(versions.c[name] == tiles.c[name] for name in ("layer", "zoom", "x", "y")))
        .scalar_subquery()
    )
    return (
        update(tiles)
        .where(_of_its_map(harvest), is_provisionally_gone(harvest))
        .values(version=func.coalesce(gone, tiles.c.version))
    )


def _of_its_map(harvest: int) -> ColumnElement[bool]:
    """Of tiles: whether they belong to the harvest's map; keeps a scan to that map."""
    its_map = select(harvests.c.map).where(harvests.c.id == harvest).scalar_subquery()
    return tiles.c.layer.in_(select(layers.c.id).where(layers.c.map == its_map))
