"""What the times of a layer's tiles prove, worked out when a harvest has walked it in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, case, exists, or_, select

from tileharvest.history.schema import (
    harvest_layers,
    harvests,
    insert_into,
    proofs,
    tiles,
    validators,
    versions,
)
from tileharvest.history.skipping import layers_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.walk.pruning import prove

if TYPE_CHECKING:
    from sqlalchemy import Connection


def prove_layers(connection: Connection, dialect: str, harvest: int) -> None:
    """Keeps the proof of each layer of which this harvest has skipped nothing, in place of an earlier one.

    To be called when all else about the harvest is settled. A harvest that has withdrawn a proof gives no
    other: what it found is not to be forgotten on the same day. Some milliseconds per thousand tiles.
    """
    day = connection.execute(select(harvests.c.day).where(harvests.c.id == harvest)).scalar_one()
    skipping = select(validators.c.layer).where(
        validators.c.layer.in_(layers_of(harvest)), validators.c.skipped == harvest
    )
    withdrawn = select(proofs.c.layer).where(proofs.c.harvest == harvest, proofs.c.withdrawn.is_not(None))
    in_full = layers_of(harvest).where(
        harvest_layers.c.layer.not_in(skipping), harvest_layers.c.layer.not_in(withdrawn)
    )
    for layer in connection.execute(in_full).scalars().all():
        proof = prove(_times(connection, harvest, layer))
        values = {
            "harvest": harvest,
            "day": day,
            "pairs": proof.pairs,
            "broken": proof.broken,
            "undated": proof.undated,
            "span": proof.span,
            "withdrawn": None,
            "withdrawn_day": None,
        }
        new = insert_into(dialect, proofs).values({"layer": layer, **values})
        connection.execute(new.on_conflict_do_update(index_elements=[proofs.c.layer], set_=values))


def _times(connection: Connection, harvest: int, layer: int) -> dict[Tile, str | None]:
    """Of the tiles that are there, as far as this harvest has asked for them and got an answer.

    That of their version where the walk remembers nothing of them: they were asked again after a kill.
    """
    of_tile = and_(*(validators.c[name] == tiles.c[name] for name in ("layer", "zoom", "x", "y")))
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
    return {
        Tile(zoom, x, y): last_modified
        for query in (kept, others)
        for zoom, x, y, last_modified in connection.execute(query)
    }
