"""What the walk remembers of each tile, and which of it may be trusted: the statements.

A row is whole when everything below it was asked without a failure, or was below a whole one that had not
changed. Only `settle`, at the end of a harvest, makes one whole. It also sees to it that no row which is not
whole lies below one that is, whatever happened before: a walk that trusts the upper one would never come to
the lower one.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import and_, bindparam, false, func, null, or_, select, update

from tileharvest.history.schema import harvests, insert_into, proofs, tiles, validators
from tileharvest.history.skipping import layers_of
from tileharvest.history.squares import Squares, above
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

    from sqlalchemy import Connection, Select, Update

    from tileharvest.history.schema import Insert
    from tileharvest.history.squares import Place
    from tileharvest.tiles.results import TileResult

Row: TypeAlias = dict[str, Any]

_TILE: Final = ("layer", "zoom", "x", "y")
_SEEN: Final = (*_TILE, "etag", "last_modified", "harvest")
_KEY: Final = tuple(validators.c[name] for name in _TILE)
_IS_THERE: Final = or_(validators.c.etag.is_not(None), validators.c.last_modified.is_not(None))
_ABSENT: Final = Validator()
_CHANGED: Final = frozenset({Outcome.ADDED, Outcome.UPDATED, Outcome.REPLACED})
_TELLING: Final = frozenset({Outcome.FAILED, Outcome.GONE, *_CHANGED})


class Remembered:
    """What a batch of results says of tiles; of several results for a tile the last counts."""

    def __init__(self, layer_ids: Mapping[str, int], results: Iterable[TileResult]) -> None:
        """Raises KeyError for a layer that is not among `layer_ids`."""
        self.seen: dict[tuple[int, Tile], Validator] = {}
        self.skipping: defaultdict[int, set[Place]] = defaultdict(set)
        self.failed: defaultdict[int, set[Place]] = defaultdict(set)
        self.unseen: defaultdict[int, set[Place]] = defaultdict(set)
        """Of another state than before, by an answer that is not to be remembered: were the file put back as
        it was, what is remembered of it and above would say that nothing has changed."""
        for result in results:
            # What is unchanged and trusted, and on an unchanged map nearly everything is, costs this alone.
            if result.seen is not None or result.skips or result.doubts or result.outcome in _TELLING:
                self._add(layer_ids[result.layer], result)

    def _add(self, layer: int, result: TileResult) -> None:
        place = (result.tile.zoom, result.tile.x, result.tile.y)
        if result.skips:
            self.skipping[layer].add(place)
            return
        self.skipping[layer].discard(place)
        if result.outcome is Outcome.FAILED:
            self.failed[layer].add(place)
        elif result.doubts or (result.seen is None and result.outcome in _CHANGED):
            self.unseen[layer].add(place)
        else:
            self.seen[layer, result.tile] = result.seen or _ABSENT

    def write(self, connection: Connection, dialect: str, harvest: int) -> None:
        there, missing = [], []
        for (layer, tile), seen in self.seen.items():
            place = (layer, tile.zoom, tile.x, tile.y)
            if seen == _ABSENT:
                missing.append({**_its(*place), "in_harvest": harvest})
            else:
                values = (*place, seen.etag, seen.last_modified, harvest)
                there.append(dict(zip(_SEEN, values, strict=True)))
        if there:
            connection.execute(_upsert(dialect), there)
        if missing:
            connection.execute(_forget(), missing)
        for layer, skipping in self.skipping.items():
            if skipping:
                connection.execute(_skip(), _rows(layer, skipping, harvest))
        for layer, failed in self.failed.items():
            connection.execute(_ask_below(), _rows(layer, failed, harvest))
            _doubt(connection, layer, failed)
        for layer, unseen in self.unseen.items():
            _doubt(connection, layer, unseen)


def settle(connection: Connection, harvest: int, *, is_complete: bool) -> None:
    """At the end of a harvest, after its last result. Reads all validators of the map.

    What a complete one has written becomes whole, but for what failed and all above. One that is not
    complete makes nothing whole.
    """
    if is_complete:
        own = validators.c.layer.in_(layers_of(harvest)) & (validators.c.harvest == harvest)
        connection.execute(update(validators).where(own, ~validators.c.whole).values(whole=True))
        _forget_below_missing(connection, harvest)
    _doubt_what_is_not_whole(connection, harvest)


def distrust(
    connection: Connection, dialect: str, harvest: int, day: date, layer: int, reason: str
) -> list[Tile]:
    """Withdraws the layer's proof and all trust in it; the harvest's tops that are still to be asked again.

    The harvest's walk is `repaired` from now on. The caller has changed its row. A first reason is kept.
    """
    pruned = update(harvests).where(harvests.c.id == harvest, harvests.c.walk == "pruned")
    connection.execute(pruned.values(walk="repaired"))
    withdrawal = {"harvest": harvest, "withdrawn": reason, "withdrawn_day": day}
    unproved = {"layer": layer, "day": day, "pairs": 0, "broken": 0, "undated": 0, "span": 0.0}
    new = insert_into(dialect, proofs).values({**unproved, **withdrawal})
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


def _forget_below_missing(connection: Connection, harvest: int) -> None:
    """What lies below a missing tile is missing too, also where nobody asks: at zooms that are not kept.

    If it came back as it was, what is remembered of it would say that nothing below has changed, while all of
    that is recorded as gone.
    """
    its = validators.c.layer.in_(layers_of(harvest))
    for layer, tops in _by_layer(connection, select(*_KEY).where(its, ~_IS_THERE)).items():
        squares = Squares(tops)
        older = and_(validators.c.layer == layer, validators.c.harvest != harvest, _IS_THERE)
        places = _by_layer(connection, select(*_KEY).where(older)).get(layer, [])
        below = [place for place in places if squares.cover(place)]
        if below:
            # That something was skipped stays true: the harvest has not walked in full.
            connection.execute(_miss(), _rows(layer, below, harvest))


def _doubt_what_is_not_whole(connection: Connection, harvest: int) -> None:
    """And what failed in the harvest, with all above."""
    failed = select(tiles.c.layer, tiles.c.zoom, tiles.c.x, tiles.c.y).where(
        tiles.c.layer.in_(layers_of(harvest)),
        tiles.c.harvest == harvest,
        tiles.c.outcome == Outcome.FAILED.value,
    )
    for layer, places in _by_layer(connection, failed).items():
        _doubt(connection, layer, places)
    its = validators.c.layer.in_(layers_of(harvest))
    not_whole = select(*_KEY).where(its, ~validators.c.whole, _IS_THERE)
    for layer, places in _by_layer(connection, not_whole).items():
        _doubt(connection, layer, places)


def _doubt(connection: Connection, layer: int, places: Iterable[Place]) -> None:
    """They and all above are not whole."""
    coarsest = connection.execute(
        select(func.min(validators.c.zoom)).where(validators.c.layer == layer)
    ).scalar()
    if coarsest is not None:
        doubtful = above(places, coarsest).union(places)
        connection.execute(_lose_trust(), [_its(layer, *place) for place in sorted(doubtful)])


def _by_layer(connection: Connection, query: Select[Any]) -> dict[int, list[Place]]:
    found: defaultdict[int, list[Place]] = defaultdict(list)
    for layer, zoom, x, y in connection.execute(query):
        found[layer].append((zoom, x, y))
    return dict(found)


def _rows(layer: int, places: Iterable[Place], harvest: int) -> list[Row]:
    return [{**_its(layer, *place), "in_harvest": harvest} for place in places]


def _its(layer: int, zoom: int, x: int, y: int) -> Row:
    return {"its_layer": layer, "its_zoom": zoom, "its_x": x, "its_y": y}


@cache
def _upsert(dialect: str) -> Insert:
    values = ("etag", "last_modified", "harvest", "whole", "skipped")
    statement = insert_into(dialect, validators).values(
        {name: bindparam(name) for name in (*_TILE, "etag", "last_modified", "harvest")}
        | {"whole": false(), "skipped": null()}
    )
    return statement.on_conflict_do_update(
        index_elements=[validators.c[name] for name in _TILE],
        set_={name: statement.excluded[name] for name in values},
    )


@cache
def _forget() -> Update:
    """Of a tile that was never there nothing is kept: most squares of a map are empty."""
    return _miss().values(skipped=None)


@cache
def _miss() -> Update:
    return _update().values(etag=None, last_modified=None, harvest=bindparam("in_harvest"), whole=false())


@cache
def _skip() -> Update:
    """Of what is not there nothing is below; it would be asked again and again once trust is withdrawn."""
    return _update().where(_IS_THERE).values(skipped=bindparam("in_harvest"))


@cache
def _ask_below() -> Update:
    return _update().where(validators.c.skipped == bindparam("in_harvest")).values(skipped=None)


@cache
def _lose_trust() -> Update:
    return _update().where(validators.c.whole).values(whole=false())


def _update() -> Update:
    return update(validators).where(*(validators.c[name] == bindparam(f"its_{name}") for name in _TILE))
