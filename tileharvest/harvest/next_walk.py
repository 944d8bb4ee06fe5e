"""How a map's next harvest walks: for the harvest itself, and for commands that tell it before. Read only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tileharvest.history.proofs import last_full, proofs
from tileharvest.walk.pruning import Wish, decide

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.history.proofs import StoredProof
    from tileharvest.maps.description import MapDescription
    from tileharvest.walk.pruning import Decision


class LayerProspect(NamedTuple):
    """One layer's next walk."""

    decision: Decision
    stored: StoredProof | None
    """What the last full walk proved; None where none has ended since proofs are kept."""

    @property
    def in_words(self) -> str:
        """The walk, its reason, and the proof with its day where that is not the reason already."""
        way = "pruned" if self.decision.is_pruned else "full"
        words = f"{way}: {self.decision.reason}"
        if self.stored is None:
            return words
        if self.decision.reason == self.stored.proof.in_words:
            return f"{words} (as of {self.stored.day})"
        if self.stored.withdrawn is not None:
            said = f"withdrawn on {self.stored.withdrawn_day}"
            is_told = self.stored.withdrawn in self.decision.reason
            return f"{words} ({said})" if is_told else f"{words}; proof {said}: {self.stored.withdrawn}"
        return f"{words}; {self.stored.proof.in_words} (as of {self.stored.day})"


class NextWalk(NamedTuple):
    """A map's next walk."""

    layers: Mapping[str, LayerProspect]

    @property
    def is_pruned(self) -> bool:
        """Whether any layer's is: then the harvest's is called so."""
        return any(layer.decision.is_pruned for layer in self.layers.values())

    @property
    def in_short(self) -> str:
        """`full`, `pruned`, or such as `pruned 1 of 2`, where layers differ."""
        pruned = sum(layer.decision.is_pruned for layer in self.layers.values())
        if 0 < pruned < len(self.layers):
            return f"pruned {pruned} of {len(self.layers)}"
        return "pruned" if pruned else "full"

    @property
    def reason(self) -> str:
        """Of all layers, each said once."""
        return "; ".join(dict.fromkeys(layer.decision.reason for layer in self.layers.values()))


def next_walk(
    history: History, description: MapDescription, depths: Mapping[str, int], today: date
) -> NextWalk:
    """As a harvest that begins on that day, in the map's time zone, decides it.

    `depths` are by layer. Commands give those of the last harvest: what the site has now, only a harvest
    finds out. Raises HistoryError.
    """
    known = proofs(history, description.name)
    full = last_full(history, description.name, kept_in_words(description, depths))

    def prospect(name: str) -> LayerProspect:
        stored = known.get(name)
        proof, withdrawn = (None, None) if stored is None else (stored.proof, stored.withdrawn)
        wish, every = Wish(description.walk), description.full_every
        return LayerProspect(decide(wish, proof, withdrawn, full, today, every), stored)

    return NextWalk({name: prospect(name) for name in depths})


def kept_in_words(description: MapDescription, depths: Mapping[str, int]) -> str:
    """Which tiles a map keeps, equal where they are the same: what is unchanged says nothing of what was not
    asked.

    `depths` are by layer: how far down `max_depth` reaches depends on them, and nothing else does.
    """
    zones = [(zone.center, zone.width, zone.height, zone.zoom) for zone in description.zones]
    limit = None if description.max_depth is None else (description.max_depth, sorted(depths.items()))
    return repr((description.layers, description.zooms, zones, limit))
