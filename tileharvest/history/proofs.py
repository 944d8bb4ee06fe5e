"""Proofs of layers, and the day of the last full walk: kept when a harvest ends, read before the next."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sqlalchemy import case, exists, func, or_, select

from tileharvest.history.schema import (
    harvest_layers,
    harvests,
    is_same_tile,
    layers,
    maps,
    replace_into,
    tiles,
    validators,
    versions,
)
from tileharvest.history.schema import proofs as kept_proofs
from tileharvest.history.trust import is_full, layers_of
from tileharvest.tiles.outcomes import Outcome
from tileharvest.walk.proof import Proof, StoredProof, prove

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

    from sqlalchemy import Connection

    from tileharvest.history.database import History
    from tileharvest.walk.proof import DatedCell


def proofs(history: History, map_name: str) -> Mapping[str, StoredProof]:
    """Returns the last proof of each layer, in the order in which they were first harvested.

    An unknown map has none.
    """
    query = (
        select(layers.c.name, kept_proofs)
        .join_from(kept_proofs, layers, layers.c.id == kept_proofs.c.layer)
        .join(maps, maps.c.id == layers.c.map)
        .where(maps.c.name == map_name)
        .order_by(layers.c.id)
    )
    with history.reading() as connection:
        return {
            row.name: StoredProof(
                Proof(row.pairs, row.broken, row.undated, row.span),
                row.day,
                row.withdrawn,
                row.withdrawn_day,
            )
            for row in connection.execute(query)
        }


def last_full(history: History, map_name: str, kept: str | None = None) -> date | None:
    """Returns the day of the map's last finished harvest that walked in full, or None if there is none.

    `kept` is what the map keeps now, as `HarvestRecord.note_walk` was told it. With it None is also returned
    where that harvest, or any since then, finished or not, kept something else. What was not kept was not
    asked, so a tile that was unchanged then says nothing of what lies below it now.
    """
    of_map = select(maps.c.id).where(maps.c.name == map_name).scalar_subquery()
    full = select(func.max(harvests.c.id)).where(harvests.c.map == of_map, is_full())
    with history.reading() as connection:
        last = connection.execute(full).scalar()
        if last is None:
            return None
        # Where no walk is noted nothing has been asked yet.
        has_asked = or_(harvests.c.id == last, harvests.c.walk.is_not(None))
        since = select(harvests.c.day, harvests.c.kept).where(
            harvests.c.map == of_map, harvests.c.id >= last, has_asked
        )
        rows = connection.execute(since.order_by(harvests.c.id)).all()
    if kept is not None and any(row.kept != kept for row in rows):
        return None
    day: date = rows[0].day
    return day


def prove_layers(connection: Connection, harvest: int) -> None:
    """Keeps the proof of each layer of which this harvest has skipped nothing, in place of an earlier one.

    Call it when all else about the harvest is settled. A harvest that has withdrawn a proof gives no other:
    what it found must not be forgotten on the same day. Takes some milliseconds per thousand tiles.
    """
    day = connection.execute(select(harvests.c.day).where(harvests.c.id == harvest)).scalar_one()
    skipping = select(validators.c.layer).where(
        validators.c.layer.in_(layers_of(harvest)), validators.c.skipped == harvest
    )
    withdrawn = select(kept_proofs.c.layer).where(
        kept_proofs.c.harvest == harvest, kept_proofs.c.withdrawn.is_not(None)
    )
    in_full = layers_of(harvest).where(
        harvest_layers.c.layer.not_in(skipping), harvest_layers.c.layer.not_in(withdrawn)
    )
    given = {"harvest": harvest, "day": day, "withdrawn": None, "withdrawn_day": None}
    for layer in connection.execute(in_full).scalars().all():
        proof = asdict(prove(_times(connection, harvest, layer)))
        new = replace_into(connection.dialect.name, kept_proofs, "layer")
        connection.execute(new, {"layer": layer, **proof, **given})


def _times(connection: Connection, harvest: int, layer: int) -> Iterable[DatedCell]:
    """Returns the times of the tiles that are there, as far as this harvest has asked for them and got an
    answer; coarse zooms first.

    It is the time of a tile's version where the walk remembers nothing of the tile, as that was asked again
    after a kill.
    """
    of_tile = is_same_tile(validators, tiles)
    is_remembered = validators.c.layer.is_not(None)
    time = case((is_remembered, validators.c.last_modified), else_=versions.c.last_modified)
    kept = (
        select(tiles.c.zoom, tiles.c.x, tiles.c.y, time)
        .select_from(tiles.join(versions, versions.c.id == tiles.c.version).outerjoin(validators, of_tile))
        .where(tiles.c.layer == layer, tiles.c.harvest == harvest, versions.c.sha1.is_not(None))
        .where(tiles.c.outcome != Outcome.FAILED.value)
    )
    # What has neither a version nor a failure of this harvest is of a zoom that is not kept.
    others = select(validators.c.zoom, validators.c.x, validators.c.y, validators.c.last_modified).where(
        validators.c.layer == layer,
        validators.c.whole,
        or_(validators.c.etag.is_not(None), validators.c.last_modified.is_not(None)),
        ~exists().where(of_tile, or_(tiles.c.version.is_not(None), tiles.c.harvest == harvest)),
    )
    both = kept.union_all(others).order_by("zoom")
    return ((zoom, x, y, text) for zoom, x, y, text in connection.execute(both))
