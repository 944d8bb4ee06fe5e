"""The decision whether a harvest walks a layer in full or pruned, and its reason in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from tileharvest.walk.proof import tiles_in_words

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from datetime import date

    from tileharvest.walk.change_index import ChangedGround, StoredIndex
    from tileharvest.walk.proof import StoredProof

_ALL: Final = "its change index tells that all of it may have changed"


class Decision(NamedTuple):
    """How a layer is walked, and why."""

    is_pruned: bool
    """Whether what lies below unchanged tiles is skipped."""
    reason: str
    """One line for the log."""
    stored: StoredProof | None = None
    """What the last full walk proved, or None where none has ended since proofs are kept."""
    change_index: StoredIndex | None = None
    """The change index that is relied on: what it does not tell of is skipped. None where all is walked."""
    ground: ChangedGround | None = None
    """What the index tells of, once it was read. None where it tells of all."""

    def with_ground(self, ground: ChangedGround | None) -> Decision:
        """Returns it once the site has said what has changed, or may say nothing more."""
        index = self.change_index
        if ground is None:
            return self if index is None else self._replace(reason=f"{_ALL}; {self.reason}")
        told = (
            f"{tiles_in_words(len(ground.cells))} may have changed" if ground.cells else "nothing has changed"
        )
        since = "" if index is None else f" since {index.day}"
        return self._replace(ground=ground, reason=f"its change index tells that {told}{since}")

    @property
    def way(self) -> str:
        """What the next walk rests on, in a word."""
        if self.change_index is not None:
            return "index"
        return "pruned" if self.is_pruned else "full"

    @property
    def in_words(self) -> str:
        """The walk, its reason, and the proof with its day where that is not the reason already."""
        words = f"{'pruned' if self.is_pruned else 'full'}: {self.reason}"
        if self.change_index is not None:
            words = f"by {self.change_index.in_words}; where that tells of all, {words}"
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
        """Whether any layer's walk leaves tiles out: then the harvest's is called so."""
        return any(one.is_pruned or one.ground is not None for one in self.layers.values())

    def with_grounds(self, grounds: Mapping[str, ChangedGround], read: Container[str]) -> Decisions:
        """Returns them once the site has said what has changed, by layer. `read` are those whose index could
        be read."""
        read_now = {
            name: one if name in read else one._replace(change_index=None)
            for name, one in self.layers.items()
        }
        return Decisions({name: one.with_ground(grounds.get(name)) for name, one in read_now.items()})

    def unless(self, dearer: str | None) -> Decisions:
        """Returns them with full walks in place of the pruned ones, where a reason speaks against these."""
        if dearer is None:
            return self
        return Decisions(
            {
                name: one._replace(is_pruned=False, reason=dearer) if one.is_pruned else one
                for name, one in self.layers.items()
            }
        )

    @property
    def in_short(self) -> str:
        """`full`, `pruned`, `index`, or such as `pruned 1 of 2`, where layers differ."""
        ways = [decision.way for decision in self.layers.values()]
        if len(set(ways)) == 1:
            return ways[0]
        return f"pruned {len(ways) - ways.count('full')} of {len(ways)}" if ways else "full"

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
    index: StoredIndex | None = None,
) -> Decision:
    """Tells how a harvest walks a layer.

    `wish` is `walk` in maps.toml. `last_full` is the day of the map's last finished harvest that was full
    from its beginning. It is also None where the last finished one kept other zooms or zones, as it vouches
    only for what it kept.
    `full_every` is the days from one full harvest to the next. `doubt` says why the renderer's times prove
    nothing, or is None where they may. `index` is what is known of the layer's change index, or None where it
    has none or none is to be relied on. It is relied on where the wish is `auto`, without a proof, but with a
    full harvest now and then.
    """
    is_pruned, reason = False, "nothing is proved so far"
    is_due = last_full is None or not 0 <= (today - last_full).days < full_every
    if wish != "auto" or is_due or (index is not None and index.withdrawn is not None):
        index = None
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
    return Decision(is_pruned, reason, stored, index)
