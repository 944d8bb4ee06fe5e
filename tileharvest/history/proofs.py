"""Proofs of layers, and the day of the last full walk: kept when a harvest ends, read before the next."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sqlalchemy import case, exists, func, or_, select, true

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
from tileharvest.history.trust import factor_of, is_full, layers_of
from tileharvest.tiles.outcomes import Outcome
from tileharvest.walk.proof import Proof, StoredProof, prove

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from sqlalchemy import ColumnElement, Connection

    from tileharvest.history.database import History
    from tileharvest.walk.proof import DatedCell


def proofs(history: History, map_name: str | None = None) -> dict[str, dict[str, StoredProof]]:
    """Returns the last proof of each layer, by map and layer; of one map only, where it is named.

    Layers come in the order in which they were first harvested. A map without proofs is left out.
    """
    query = (
        select(maps.c.name.label("map_name"), layers.c.name, kept_proofs)
        .join_from(kept_proofs, layers, layers.c.id == kept_proofs.c.layer)
        .join(maps, maps.c.id == layers.c.map)
        .where(_is_named(map_name))
        .order_by(layers.c.id)
    )
    found: dict[str, dict[str, StoredProof]] = {}
    with history.reading() as connection:
        for row in connection.execute(query):
            proof = Proof(row.pairs, row.broken, row.undated, row.span)
            stored = StoredProof(proof, row.day, row.withdrawn, row.withdrawn_day)
            found.setdefault(row.map_name, {})[row.name] = stored
    return found


def last_full(history: History, map_name: str | None = None) -> dict[str, tuple[date, frozenset[str | None]]]:
    """Returns the day of the last finished harvest that walked in full, by map; of one map, where named.

    With it comes what that harvest, and all since then, finished or not, have kept, as
    `HarvestRecord.note_walk` was told it. If that is not what the map keeps now, the day is of no use. What
    was not kept was not asked, so a tile that was unchanged then says nothing of what lies below it now.

    A map without such a harvest is left out. One query, which reads an index of all harvests of these maps.
    """
    last = (
        select(harvests.c.map, func.max(harvests.c.id).label("id"))
        .join_from(harvests, maps, maps.c.id == harvests.c.map)
        .where(is_full(), _is_named(map_name))
        .group_by(harvests.c.map)
        .subquery()
    )
    # Where no walk is noted nothing has been asked yet.
    has_asked = or_(harvests.c.id == last.c.id, harvests.c.walk.is_not(None))
    since = (
        select(maps.c.name, harvests.c.day, harvests.c.kept)
        .join_from(last, harvests, (harvests.c.map == last.c.map) & (harvests.c.id >= last.c.id))
        .join(maps, maps.c.id == last.c.map)
        .where(has_asked)
        .order_by(harvests.c.id)
    )
    found: dict[str, tuple[date, frozenset[str | None]]] = {}
    with history.reading() as connection:
        for name, day, kept in connection.execute(since):
            first_day, before = found.get(name, (day, frozenset()))
            found[name] = first_day, before | {kept}
    return found


def _is_named(map_name: str | None) -> ColumnElement[bool]:
    return true() if map_name is None else maps.c.name == map_name


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
        proof = asdict(prove(_times(connection, harvest, layer), factor_of(connection, layer)))
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
