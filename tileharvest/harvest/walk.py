"""How a harvest walks its layers: which tiles below an unchanged one it need not ask. No Scrapy here."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tileharvest.harvest.next_walk import kept_in_words, next_walk
from tileharvest.history.known import Known
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator
from tileharvest.walk.pruning import audited, breaks_law, doubts, may_skip, remembers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from tileharvest.harvest.layers import LayerWalk
    from tileharvest.history.database import History
    from tileharvest.history.harvests import Harvest
    from tileharvest.maps.description import MapDescription
    from tileharvest.tiles.grid import Tile
    from tileharvest.walk.pruning import Decision

LEAST_AUDITED: Final = 20
"""Tiles that an audit asks at least, in each layer: where 20 are all right, it is 19 in 20 sure that fewer
than 14 % of those that were skipped are not (1 - 0.05^(1/20))."""


class Remembered(NamedTuple):
    """What follows from a tile's answer for the walk."""

    seen: Validator | None
    """To be recorded; None: nothing."""
    skips: bool
    """Whether what lies below need not be asked."""
    doubts: bool = False
    """Whether what is remembered is not to be trusted any more."""


class Audit(NamedTuple):
    """What is asked of a layer to see whether skipping was right."""

    tiles: Sequence[Tile]
    known: frozenset[Tile]
    """What was skipped and is known; where none was, nothing is expected."""

    def broken(self, found: Mapping[Tile, Outcome]) -> list[Tile]:
        """Of the audited tiles those that show that the layer's proof is none."""
        return [tile for tile, outcome in found.items() if breaks_law(outcome, is_known=tile in self.known)]


_NO_AUDIT: Final = Audit((), frozenset())


class Walking:
    """Of one harvest. Used from its event loop. Everything that asks the history raises HistoryError."""

    def __init__(
        self,
        harvest: Harvest,
        description: MapDescription,
        layers: Mapping[str, LayerWalk],
        decisions: Mapping[str, Decision],
    ) -> None:
        self._harvest = harvest
        self._description = description
        self._layers = layers
        self._marks = Known(harvest.marks)
        self.decisions = decisions
        """By layer, why it is walked as it is."""
        self._full = {name for name, decision in decisions.items() if not decision.is_pruned}

    @classmethod
    async def begin(
        cls,
        history: History,
        harvest: Harvest,
        description: MapDescription,
        layers: Mapping[str, LayerWalk],
        day: date,
    ) -> Walking:
        """Decide how each layer is walked, and note it."""

        def look() -> dict[str, Decision]:
            depths = {name: part.walk.depth for name, part in layers.items()}
            walk = next_walk(history, description, depths, day)
            kept = kept_in_words(description, depths)
            harvest.walks("pruned" if walk.is_pruned else "full", walk.reason, kept)
            return {name: layer.decision for name, layer in walk.layers.items()}

        return cls(harvest, description, layers, await asyncio.to_thread(look))

    async def judge(
        self,
        layer: str,
        tile: Tile,
        outcome: Outcome,
        said: Validator,
        *,
        is_on_walk: bool,
        in_full: bool,
        is_audited: bool = False,
        is_compared: bool = True,
    ) -> Remembered:
        """What a tile's answer means for the walk.

        `is_on_walk`: whether it was asked before all that lies below it, and that is asked too. `in_full`:
        whether nothing below it is to be skipped, although its layer is pruned. `is_audited`: whether it was
        skipped itself; unchanged it skips again, so that what lies below it is asked if the proof breaks.
        `is_compared`: whether it has an ETag, or its size was compared with the one known. By its date alone
        a tile below which another one was removed looks unchanged: it has the time of its newest child.
        """
        if outcome is Outcome.FAILED:
            return Remembered(None, skips=False)
        seen = Validator() if outcome in (Outcome.NOTHING, Outcome.GONE) else said
        mark = await self._marks.of(layer, tile)
        if in_full and mark is not None:
            # Another worker may have withdrawn the trust after this one had read the mark: a top whose answer
            # was taken for nothing new would be asked again and again.
            mark = replace(mark, is_trusted=False)
        may = is_audited or (layer not in self._full and is_compared and may_skip(mark, seen))
        skips = (
            may
            and outcome is Outcome.IGNORED
            and bool(self._layers[layer].walk.below(tile, outcome, known=True))
        )
        if skips:
            return Remembered(None, skips)
        remembered = remembers(mark, seen, is_on_walk=is_on_walk)
        return Remembered(remembered, skips, remembered is None and doubts(mark, seen))

    async def to_audit(self, layer: str) -> Audit:
        """Of what was skipped; the same tiles whenever this is asked."""
        if layer in self._full or self._description.audit == 0:
            return _NO_AUDIT
        # A quarter of a second for 20,000 tiles, in which the event loop has other things to do.
        return await asyncio.to_thread(self._audit_of, layer)

    def _audit_of(self, layer: str) -> Audit:
        walk = self._layers[layer].walk
        known = self._harvest.skipped(layer, walk.kept())
        tops = self._harvest.skipped_tops(layer)
        places = dict.fromkeys(known)
        # A tile that was added under one that did not change shows in no list of what is known; what is above
        # the coarsest kept ones is in none either, but is there.
        above = dict.fromkeys(tile.parent() for tile in known if tile.zoom == walk.coarsest > walk.top)
        for tile in (*tops, *above, *known):
            below = walk.below(tile, Outcome.IGNORED, known=True)
            places.update(dict.fromkeys(one for one in below if walk.keeps(one.zoom)))
        tiles = audited(list(places), self._description.audit, LEAST_AUDITED, self.seed)
        return Audit(tiles, frozenset(known))

    @property
    def seed(self) -> str:
        """Of what is audited: another one for each harvest, the same for all who have a part in it."""
        return self._harvest.identity

    async def found(self, layer: str, tiles: Sequence[Tile]) -> Mapping[Tile, Outcome]:
        """What this harvest has found for them so far."""
        return await asyncio.to_thread(self._harvest.outcomes_of, layer, tiles)

    async def distrusted(self) -> Mapping[str, str]:
        """The layers in which this harvest has withdrawn trust, with the reasons."""
        return await asyncio.to_thread(self._harvest.distrusted)

    async def distrust(self, layer: str, reason: str) -> list[Tile]:
        """Withdraw the layer's proof: nothing of it is skipped any more. Gives the tiles from which to walk
        down again; none when that is done."""
        self._full.add(layer)
        tops = await asyncio.to_thread(self._harvest.distrust, layer, reason)
        self._marks.forget()
        return tops

    def close(self) -> None:
        self._marks.close()
