"""Statements about trust: what the walk remembers of each tile, which of it is trusted, and what was skipped.

A row of `validators` is whole if everything below its tile was asked without a failure, or lies below another
whole tile that had not changed. Only `settle`, at the end of a harvest, makes rows whole. It also makes sure
that no row which is not whole lies below a whole one. A walk that trusts the upper tile would never come to
the lower one.

A harvest skips what lies below its tops. A top is a tile that was unchanged and trusted. Whether a tile lies
below a top is found out here in Python: the database would go through all tiles once for each top. A walk
that rests on a change index also skips everything outside of the ground that the index tells of.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, bindparam, false, func, or_, select, true, update

from tileharvest.history.areas import IN_SLICES, IS_UNASKED
from tileharvest.history.change_indexes import IS_TRUSTED, ground_of
from tileharvest.history.connection import execute_rows
from tileharvest.history.schema import (
    FINISHED,
    TILE,
    harvest_layers,
    harvests,
    insert_into,
    is_tile,
    its_tile,
    layers,
    proofs,
    replace_into,
    tiles,
    validators,
    versions,
)
from tileharvest.tiles.grid import Tile, ancestors, covered_by
from tileharvest.tiles.outcomes import CHANGED, Outcome
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import date

    from sqlalchemy import Connection, Select

    from tileharvest.history.schema import Row
    from tileharvest.tiles.grid import Cell
    from tileharvest.tiles.results import TileResult

_KEY: Final = tuple(validators.c[name] for name in TILE)
IS_THERE: Final = or_(validators.c.etag.is_not(None), validators.c.last_modified.is_not(None))
"""Whether the walk remembers an answer of a tile. A tile that was missing has a row without a validator."""
_ABSENT: Final = Validator()
_TELLING: Final = CHANGED | {Outcome.FAILED, Outcome.GONE}

ITS_LAYERS: Final = select(harvest_layers.c.layer).where(harvest_layers.c.harvest == bindparam("in_harvest"))
"""The ids of the layers of the harvest `in_harvest`."""

_IN_ITS_LAYERS: Final = validators.c.layer.in_(ITS_LAYERS)
_MAKE_WHOLE: Final = (
    update(validators)
    .where(_IN_ITS_LAYERS, validators.c.harvest == bindparam("in_harvest"), ~validators.c.whole)
    .values(whole=true())
)
_MISSING: Final = select(*_KEY).where(_IN_ITS_LAYERS, ~IS_THERE)
_SEEN_EARLIER: Final = select(*_KEY).where(
    validators.c.layer == bindparam("in_layer"), validators.c.harvest != bindparam("in_harvest"), IS_THERE
)
_NOT_WHOLE: Final = select(*_KEY).where(_IN_ITS_LAYERS, ~validators.c.whole, IS_THERE)
_FAILED: Final = select(*(tiles.c[name] for name in TILE)).where(
    tiles.c.layer.in_(ITS_LAYERS),
    tiles.c.harvest == bindparam("in_harvest"),
    tiles.c.outcome == Outcome.FAILED.value,
)
_COARSEST: Final = select(func.min(validators.c.zoom)).where(validators.c.layer == bindparam("in_layer"))
_FACTOR: Final = select(layers.c.factor).where(layers.c.id == bindparam("in_layer"))
_TOPS: Final = select(validators.c.zoom, validators.c.x, validators.c.y).where(
    validators.c.layer == bindparam("in_layer"),
    validators.c.skipped == bindparam("in_harvest"),
    IS_TRUSTED,
)
"""The tops of a layer. There are none if the harvest has withdrawn trust in the layer."""
IS_FULL: Final = and_(harvests.c.reason == FINISHED, func.coalesce(harvests.c.walk, "full") == "full")
"""Whether a harvest finished and walked in full. Harvests of old releases, which note no walk, did."""
_LAST_FULL: Final = (
    select(func.max(harvests.c.id))
    .join_from(harvests, harvest_layers, harvest_layers.c.harvest == harvests.c.id)
    .where(harvest_layers.c.layer == bindparam("in_layer"), harvests.c.id < bindparam("in_harvest"), IS_FULL)
    .scalar_subquery()
)
"""The id of the last full harvest before this one that had the layer, or null."""
_UNASKED: Final = (
    select(tiles.c.zoom, tiles.c.x, tiles.c.y)
    .join_from(tiles, versions, versions.c.id == tiles.c.version)
    .where(tiles.c.layer == bindparam("in_layer"), versions.c.sha1.is_not(None), IS_UNASKED)
    # The last full harvest has asked for all tiles that the map keeps. Tiles with an older result are of
    # zones or zooms that the map does not keep any more.
    .where(tiles.c.harvest >= func.coalesce(_LAST_FULL, 0))
)


def remember(
    connection: Connection, harvest: int, layer_ids: Mapping[str, int], results: Iterable[TileResult]
) -> None:
    """Writes what the walk is to remember of a batch of results. The last result of a tile counts.

    Raises KeyError for a layer that the harvest does not have.
    """
    seen: dict[tuple[int, Tile], Validator] = {}
    skipping: defaultdict[int, set[Cell]] = defaultdict(set)
    failed: defaultdict[int, set[Cell]] = defaultdict(set)
    # Tiles that have changed, by an answer that is not remembered. If the site put the old file back, the old
    # rows of the tile and of the tiles above it would say that nothing has changed.
    unseen: defaultdict[int, set[Cell]] = defaultdict(set)
    for result in results:
        step = result.step
        # An unchanged and trusted tile costs no more than this. On an unchanged map nearly every tile is one.
        if not (step.is_news or result.outcome in _TELLING):
            continue
        layer, place = layer_ids[result.layer], (result.tile.zoom, result.tile.x, result.tile.y)
        if step.skips:
            skipping[layer].add(place)
            continue
        skipping[layer].discard(place)
        if result.outcome is Outcome.FAILED:
            failed[layer].add(place)
        elif step.doubts or (step.seen is None and result.outcome in CHANGED):
            unseen[layer].add(place)
        else:
            seen[layer, result.tile] = step.seen or _ABSENT
    _write_seen(connection, harvest, seen)
    for layer, places in skipping.items():
        if places:
            connection.execute(_SKIP, _rows(layer, places, harvest))
    for layer, places in failed.items():
        connection.execute(_ASK_BELOW, _rows(layer, places, harvest))
        _doubt(connection, layer, places)
    for layer, places in unseen.items():
        _doubt(connection, layer, places)


def _write_seen(connection: Connection, harvest: int, seen: Mapping[tuple[int, Tile], Validator]) -> None:
    there, missing = [], []
    for (layer, tile), validator in seen.items():
        place = layer, tile.zoom, tile.x, tile.y
        if validator == _ABSENT:
            missing.append({**its_tile(*place), "in_harvest": harvest})
        else:
            is_whole, skipped = False, None
            there.append((*place, validator.etag, validator.last_modified, harvest, is_whole, skipped))
    if there:
        execute_rows(connection, _WRITE_SEEN, there)
    if missing:
        connection.execute(_FORGET, missing)


def settle(connection: Connection, harvest: int, *, is_complete: bool) -> None:
    """Makes the rows whole that a complete harvest has written, without failed tiles and all above them.

    Call it at the end of a harvest, after its last result. A harvest that is not complete makes no row whole.
    Reads all validators of the map.
    """
    if is_complete:
        connection.execute(_MAKE_WHOLE, {"in_harvest": harvest})
        _forget_below_missing(connection, harvest)
    _doubt_what_is_not_whole(connection, harvest)


def distrust(connection: Connection, harvest: int, day: date, layer: int, reason: str) -> list[Tile]:
    """Withdraws the layer's proof and all trust in it. Returns the tops that are still to be asked again.

    The harvest's walk is noted as `repaired`. The first reason is kept. The caller has changed the harvest's
    row in this transaction.
    """
    pruned = update(harvests).where(harvests.c.id == harvest, harvests.c.walk == "pruned")
    connection.execute(pruned.values(walk="repaired"))
    withdrawal = {"harvest": harvest, "withdrawn": reason, "withdrawn_day": day}
    unproved = {"layer": layer, "day": day, "pairs": 0, "broken": 0, "undated": 0, "span": 0.0}
    new = insert_into(proofs).values({**unproved, **withdrawal})
    is_news = or_(proofs.c.harvest != harvest, proofs.c.withdrawn.is_(None))
    connection.execute(
        new.on_conflict_do_update(index_elements=[proofs.c.layer], set_=withdrawal, where=is_news)
    )
    in_layer = validators.c.layer == layer
    connection.execute(update(validators).where(in_layer, validators.c.whole).values(whole=False))
    tops = select(validators.c.zoom, validators.c.x, validators.c.y).where(
        in_layer, validators.c.skipped == harvest
    )
    return sorted(Tile(*row) for row in connection.execute(tops))


def tops_of(connection: Connection, harvest: int, layer: int) -> list[Cell]:
    """Returns the tiles below which the harvest did not ask. There are none if it has withdrawn trust in the
    layer.

    Reads all validators of the layer.
    """
    its = {"in_harvest": harvest, "in_layer": layer}
    return [(zoom, x, y) for zoom, x, y in connection.execute(_TOPS, its)]


def spared_by(connection: Connection, harvest: int, layer: int) -> Callable[[Cell], bool] | None:
    """Returns a function that tells whether the harvest skips a tile of the layer. Returns None if it skips
    nothing, as in a full walk.

    Skipped tiles lie below a top, or outside of the ground of a change index."""
    tops, ground = tops_of(connection, harvest, layer), ground_of(connection, harvest, layer)
    if not tops and ground is None:
        return None
    is_covered = covered_by(tops, factor_of(connection, layer))
    return lambda cell: is_covered(cell) or (ground is not None and cell not in ground)


def factor_of(connection: Connection, layer: int) -> int:
    """Returns how many tiles of the next deeper zoom lie along a tile's edge."""
    return int(connection.execute(_FACTOR, {"in_layer": layer}).scalar_one())


def count_skipped(connection: Connection, harvest: int) -> dict[int, int]:
    """Returns by layer how many present tiles were skipped and have no result. Layers with 0 are left out."""
    its_layers = connection.execute(ITS_LAYERS, {"in_harvest": harvest}).scalars().all()
    counted = {layer: _count_spared(connection, harvest, layer) for layer in its_layers}
    return {layer: count for layer, count in counted.items() if count}


def _count_spared(connection: Connection, harvest: int, layer: int) -> int:
    is_spared = spared_by(connection, harvest, layer)
    if is_spared is None:
        return 0
    its = {"in_harvest": harvest, "in_layer": layer}
    unasked = connection.execute(_UNASKED, its, execution_options=IN_SLICES)
    return sum(is_spared((zoom, x, y)) for zoom, x, y in unasked)


def _forget_below_missing(connection: Connection, harvest: int) -> None:
    """Forgets what is remembered of tiles below a missing tile, because they are missing too.

    Nobody asks for them at zooms that the map does not keep. If they came back as they were, their old rows
    would say that nothing below them has changed, while all tiles below are recorded as gone.
    """
    for layer, tops in _by_layer(connection, _MISSING, in_harvest=harvest).items():
        is_covered = covered_by(tops, factor_of(connection, layer))
        older = _by_layer(connection, _SEEN_EARLIER, in_harvest=harvest, in_layer=layer)
        places = older.get(layer, [])
        below = list(filter(is_covered, places))
        if below:
            # `skipped` stays as it is: it tells that the harvest has not walked in full.
            connection.execute(_MISS, _rows(layer, below, harvest))


def _doubt_what_is_not_whole(connection: Connection, harvest: int) -> None:
    """Takes trust from all tiles above a row that is not whole, from failed tiles, and from all above
    those."""
    for untrusted in (_FAILED, _NOT_WHOLE):
        for layer, places in _by_layer(connection, untrusted, in_harvest=harvest).items():
            _doubt(connection, layer, places)


def _doubt(connection: Connection, layer: int, places: Iterable[Cell]) -> None:
    """Makes these tiles and all above them not whole."""
    coarsest = connection.execute(_COARSEST, {"in_layer": layer}).scalar()
    if coarsest is not None:
        doubtful = ancestors(places, coarsest, factor_of(connection, layer)).union(places)
        connection.execute(_LOSE_TRUST, [its_tile(layer, *place) for place in sorted(doubtful)])


def _by_layer(connection: Connection, query: Select[Any], **parameters: int) -> dict[int, list[Cell]]:
    found: defaultdict[int, list[Cell]] = defaultdict(list)
    for layer, zoom, x, y in connection.execute(query, parameters, execution_options=IN_SLICES):
        found[layer].append((zoom, x, y))
    return dict(found)


def _rows(layer: int, places: Iterable[Cell], harvest: int) -> list[Row]:
    return [{**its_tile(layer, *place), "in_harvest": harvest} for place in places]


_WRITE_SEEN: Final = replace_into(validators, *TILE)
_UPDATE: Final = update(validators).where(is_tile(validators))
_MISS: Final = _UPDATE.values(etag=None, last_modified=None, harvest=bindparam("in_harvest"), whole=false())
_FORGET: Final = _MISS.values(skipped=None)
"""Changes a row only if there is one. Most places of a map are empty, and have no row."""
_SKIP: Final = _UPDATE.where(IS_THERE).values(skipped=bindparam("in_harvest"))
"""Leaves missing tiles out. Nothing is below them, and they would be asked again after each distrust."""
_ASK_BELOW: Final = _UPDATE.where(validators.c.skipped == bindparam("in_harvest")).values(skipped=None)
_LOSE_TRUST: Final = _UPDATE.where(validators.c.whole).values(whole=false())
