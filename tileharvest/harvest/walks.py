"""The walks of a harvest over the layers of its map, with what the history knows of them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tileharvest.errors import ConfigurationError
from tileharvest.history.known import Known
from tileharvest.history.proofs import last_full, proofs
from tileharvest.history.schema import PUSHED_WALK
from tileharvest.tiles.questions import IN_FULL, Asked
from tileharvest.walk.audit import Audit
from tileharvest.walk.decision import Decision, Decisions, decide
from tileharvest.walk.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord
    from tileharvest.maps.description import MapDescription
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.layers import Layer
    from tileharvest.tiles.outcomes import Outcome
    from tileharvest.tiles.questions import TileQuestion
    from tileharvest.tiles.results import Step
    from tileharvest.tiles.verdict import Answer
    from tileharvest.walk.proof import StoredProof

_logger = logging.getLogger(__name__)

_AUDITED = Asked(late=True, audited=True)
_PUSHED = Decision(
    is_pruned=False, reason="what was pushed after the segment's harvest is asked, and no more"
)


class LayerWalk(NamedTuple):
    """A layer of the site with the walk over it."""

    layer: Layer
    walk: Walk


class Walks:
    """The walks of one harvest. Used from its event loop. All that asks the history raises HistoryError."""

    def __init__(
        self,
        record: HarvestRecord,
        description: MapDescription,
        layers: Mapping[str, LayerWalk],
        decisions: Decisions,
    ) -> None:
        self._record = record
        self._description = description
        self._layers = layers
        self._marks = Known(record.marks, record.history.reader)
        self.decisions = decisions
        """How each layer is walked, and why."""
        self._pruned = {name for name, decision in decisions.layers.items() if decision.is_pruned}

    @classmethod
    async def begin(
        cls,
        record: HarvestRecord,
        description: MapDescription,
        layers: Mapping[str, LayerWalk],
        day: date,
        doubt: str | None = None,
    ) -> Walks:
        """Decides how each layer is walked, and notes it. `doubt` is the renderer's."""

        def look() -> Decisions:
            depths = {name: part.walk.pyramid.depth for name, part in layers.items()}
            if record.is_pushed:
                decisions = Decisions(dict.fromkeys(depths, _PUSHED))
                way = PUSHED_WALK
            else:
                decisions = next_walks(record.history, description, depths, day, doubt)
                way = "pruned" if decisions.is_pruned else "full"
            record.note_walk(way, decisions.reason, kept_in_words(description, depths))
            return decisions

        return cls(record, description, layers, await asyncio.to_thread(look))

    async def step(self, layer: str, tile: Tile, outcome: Outcome, answer: Answer, asked: Asked) -> Step:
        """Returns what a tile's answer means for the walk."""
        mark = await self._marks.of(layer, tile)
        walk = self._layers[layer].walk
        return walk.step(tile, outcome, answer, mark, asked, is_pruned=layer in self._pruned)

    async def audit(self) -> list[tuple[Layer, Tile, Asked]]:
        """Returns the tiles that must be asked before the harvest may end, and how.

        There are none when all is well, or mended. Call it when everything that was found is recorded.
        Whether skipping was wrong is looked at when all audited tiles of a layer have an answer: else what is
        withdrawn would depend on the order of answers.
        """
        distrusted = dict(await asyncio.to_thread(self._record.distrusted))
        wanted: list[tuple[Layer, Tile, Asked]] = []
        for name, (layer, _) in self._layers.items():
            if name not in distrusted:
                audit = await self.to_audit(name)
                found = {}
                if audit.tiles:
                    found = await asyncio.to_thread(self._record.outcomes, name, audit.tiles)
                missing = [tile for tile in audit.tiles if tile not in found]
                wanted += [(layer, tile, _AUDITED) for tile in missing]
                if not missing and (reason := self._breach(name, audit, found)):
                    distrusted[name] = reason
            if name in distrusted:
                tops = await self.distrust(name, distrusted[name])
                wanted += [(layer, tile, IN_FULL) for tile in tops]
        return wanted

    async def to_audit(self, layer: str) -> Audit:
        """Returns what is asked of the skipped tiles; the same whenever this is called."""
        if layer not in self._pruned or self._description.audit == 0:
            return Audit()

        def draw() -> Audit:
            walk = self._layers[layer].walk
            known, tops = self._record.skipped(layer, walk.kept()), self._record.tops(layer)
            # Another seed for each harvest, the same for all who have a part in it.
            return walk.audit(known, tops, self._description.audit, self._record.identity)

        # A quarter of a second for 20,000 tiles, in which the event loop has other things to do.
        return await asyncio.to_thread(draw)

    def _breach(self, layer: str, audit: Audit, found: Mapping[Tile, Outcome]) -> str | None:
        """Says what shows that skipping was wrong, or returns None; and tells it."""
        if wrong := audit.broken(found):
            reason = f"tile {wrong[0]} had changed below one that had not, found on {self._record.day}"
            _logger.warning(
                "layer %s: %s; all of it is asked now, and nothing of it is skipped until a full harvest"
                " shows that its times can be relied on",
                layer,
                reason,
            )
            return reason
        if audit.tiles:
            _logger.info(
                "layer %s: %d of the skipped tiles were asked, seed %s: none had changed",
                layer,
                len(audit.tiles),
                self._record.identity,
            )
        return None

    async def distrust(self, layer: str, reason: str) -> list[Tile]:
        """Withdraws the layer's proof: nothing of it is skipped any more. Returns the tiles from which to
        walk down again; none when that is done."""
        self._pruned.discard(layer)
        tops = await asyncio.to_thread(self._record.distrust, layer, reason)
        self._marks.forget()
        return tops


def walk_over(description: MapDescription, layer: Layer) -> Walk:
    """Returns the walk over a layer of the map.

    Raises ConfigurationError where the map's zooms, zones or max_depth do not fit the site.
    """
    try:
        return Walk(layer.pyramid, description.zooms, description.zones, description.max_depth)
    except ValueError as error:
        raise ConfigurationError(
            f"map '{description.name}', layer '{layer.name}': {error}; change its zooms, zones or max_depth"
        ) from None


def next_walks(
    history: History,
    description: MapDescription,
    depths: Mapping[str, int],
    today: date,
    doubt: str | None = None,
) -> Decisions:
    """Tells how a harvest that begins on that day, in the map's time zone, walks. Reads only.

    `depths` are by layer. Commands give those of the last harvest: what the site has now, only a harvest
    finds out. `doubt` is the renderer's. Raises HistoryError.
    """
    name = description.name
    return decisions_for(description, depths, today, proofs(history, name), last_full(history, name), doubt)


def decisions_for(
    description: MapDescription,
    depths: Mapping[str, int],
    today: date,
    proved: Mapping[str, Mapping[str, StoredProof]],
    full: Mapping[str, tuple[date, frozenset[str | None]]],
    doubt: str | None = None,
) -> Decisions:
    """Does the same with what `proofs` and `last_full` have read, of this map or of all maps. Pure."""
    known, every = proved.get(description.name, {}), description.full_every
    day, kept = full.get(description.name, (None, frozenset()))
    if kept != {kept_in_words(description, depths)}:
        day = None
    return Decisions(
        {name: decide(description.walk, known.get(name), day, today, every, doubt) for name in depths}
    )


def kept_in_words(description: MapDescription, depths: Mapping[str, int]) -> str:
    """Returns which tiles a map keeps, equal where they are the same.

    What is unchanged says nothing of what was not asked. `depths` are by layer: how far down `max_depth`
    reaches depends on them, and nothing else does.
    """
    zones = [(zone.center, zone.width, zone.height, zone.zoom) for zone in description.zones]
    limit = None if description.max_depth is None else (description.max_depth, sorted(depths.items()))
    return repr((description.layers, description.zooms, zones, limit))


def located(layers: Mapping[str, LayerWalk], question: TileQuestion, url: str) -> tuple[TileQuestion, str]:
    """Returns the question and its address as these layers have it: addresses change with a layer's depth.

    A question that a person has pushed may lack the layer, if there is only one, or the tile: then its
    address tells both. Raises LookupError, with a line for the log, where the layers have no such tile.
    """
    tile = question.tile
    if tile is None:
        found = ((name, part.layer.addresses.tile_of(url)) for name, part in layers.items())
        name, tile = next(((name, at) for name, at in found if at is not None), ("", None))
        if tile is None:
            raise LookupError(f"{url} is no tile of the map; it was not asked for")
    else:
        name = question.layer or (next(iter(layers)) if len(layers) == 1 else "")
    if name not in layers:
        raise LookupError(f"layer '{name}' is not harvested; it has: {', '.join(layers)}")
    try:
        url = layers[name].layer.addresses.url_of(tile)
    except ValueError as error:
        raise LookupError(f"a request was dropped: {error}") from None
    return replace(question, layer=name, tile=tile), url
