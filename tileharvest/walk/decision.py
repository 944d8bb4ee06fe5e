"""The decision whether a harvest walks a layer in full or pruned, and its reason in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from tileharvest.walk.proof import StoredProof


class Decision(NamedTuple):
    """How a layer is walked, and why."""

    is_pruned: bool
    reason: str
    """One line for the log."""
    stored: StoredProof | None = None
    """What the last full walk proved, or None where none has ended since proofs are kept."""

    @property
    def in_words(self) -> str:
        """The walk, its reason, and the proof with its day where that is not the reason already."""
        words = f"{'pruned' if self.is_pruned else 'full'}: {self.reason}"
        if self.stored is None:
            return words
        if self.reason == self.stored.proof.in_words:
            return f"{words} (as of {self.stored.day})"
        if self.stored.withdrawn is not None:
            said = f"withdrawn on {self.stored.withdrawn_day}"
            is_told = self.stored.withdrawn in self.reason
            return f"{words} ({said})" if is_told else f"{words}; proof {said}: {self.stored.withdrawn}"
        return f"{words}; {self.stored.proof.in_words} (as of {self.stored.day})"


class Decisions(NamedTuple):
    """How a map is walked."""

    layers: Mapping[str, Decision]

    @property
    def is_pruned(self) -> bool:
        """Whether any layer's walk is: then the harvest's is called so."""
        return any(decision.is_pruned for decision in self.layers.values())

    @property
    def in_short(self) -> str:
        """`full`, `pruned`, or such as `pruned 1 of 2`, where layers differ."""
        pruned = sum(decision.is_pruned for decision in self.layers.values())
        if 0 < pruned < len(self.layers):
            return f"pruned {pruned} of {len(self.layers)}"
        return "pruned" if pruned else "full"

    @property
    def reason(self) -> str:
        """The reasons of all layers, each said once."""
        return "; ".join(dict.fromkeys(decision.reason for decision in self.layers.values()))


def decide(
    wish: Literal["auto", "full", "pruned"],
    stored: StoredProof | None,
    last_full: date | None,
    today: date,
    full_every: int,
    doubt: str | None = None,
) -> Decision:
    """Tells how a harvest walks a layer.

    `wish` is `walk` in maps.toml. `last_full` is the day of the map's last finished harvest that was full
    from its beginning. It is also None where the last finished one kept other zooms or zones, as it vouches
    only for what it kept.
    `full_every` is the days from one full harvest to the next. `doubt` says why the renderer's times prove
    nothing, or is None where they may.
    """
    is_pruned, reason = False, "nothing is proved so far"
    if wish == "full":
        reason = "walk = full is set"
    elif doubt is not None:
        reason = doubt
    elif last_full is None:
        reason = "no full harvest is finished so far"
    elif not 0 <= (today - last_full).days < full_every:
        reason = f"the last full walk was on {last_full}"
    elif stored is not None and stored.withdrawn is not None:
        reason = f"not to be relied on: {stored.withdrawn}"
    elif wish == "pruned":
        is_pruned, reason = True, "walk = pruned is set"
    elif stored is not None:
        is_pruned, reason = stored.proof.holds, stored.proof.in_words
    return Decision(is_pruned, reason, stored)
