"""The decision whether a harvest walks a layer in full or pruned, and its reason in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from tileharvest.errors import counted

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from datetime import date

    from tileharvest.walk.change_index import ChangedGround, StoredIndex
    from tileharvest.walk.proof import Proof


class Decision(NamedTuple):
    """How a layer is walked, and why."""

    is_pruned: bool
    """Whether the tiles below unchanged ones are skipped."""
    reason: str
    """The reason, in one line for the log."""
    change_index: StoredIndex | None = None
    """The change index that is relied on, or None. Tiles that it does not name are skipped."""
    ground: ChangedGround | None = None
    """The ground that may have changed by the index, once it was read. None if all may have changed."""
    is_share: bool = False
    """Whether the layer has one zoom, and only a share of its empty places is asked."""

    @property
    def way(self) -> str:
        """The basis of the walk, in a word: `index`, `share`, `pruned` or `full`."""
        if self.change_index is not None:
            return "index"
        return "share" if self.is_share else "pruned" if self.is_pruned else "full"

    @property
    def in_words(self) -> str:
        """The walk and its reason."""
        if self.change_index is None:
            return f"{self.way}: {self.reason}"
        otherwise = self._replace(change_index=None).in_words
        return f"by {self.change_index.in_words}; if that says all may have changed, {otherwise}"


class Decisions(NamedTuple):
    """How the layers of a map are walked."""

    layers: dict[str, Decision]

    @property
    def is_pruned(self) -> bool:
        """Whether the walk of any layer leaves tiles out. The walk of the harvest is called pruned then."""
        return any(one.is_pruned or one.ground is not None for one in self.layers.values())

    def with_grounds(self, grounds: Mapping[str, ChangedGround], read: Container[str]) -> Decisions:
        """Returns the decisions after the change indexes were read.

        `grounds` has, by layer, what may have changed. `read` are the layers whose index could be read.
        """
        layers = {}
        for name, one in self.layers.items():
            index, ground = one.change_index, grounds.get(name)
            if index is None or name not in read:
                index, ground, reason = None, None, one.reason
            elif ground is None:
                reason = f"its change index says that all of it may have changed; {one.reason}"
            else:
                changed = f"{counted(len(ground.cells), 'tile')} may have" if ground.cells else "nothing has"
                reason = f"its change index says that {changed} changed since {index.day}"
            layers[name] = one._replace(change_index=index, ground=ground, reason=reason)
        return Decisions(layers)

    @property
    def kind(self) -> str:
        """The walk of the harvest as a whole, as the history notes it: `share`, `pruned` or `full`."""
        if any(one.is_share for one in self.layers.values()):
            return "share"
        return "pruned" if self.is_pruned else "full"

    @property
    def in_short(self) -> str:
        """`full`, `pruned` or `index`; or, if layers differ, how many are not walked in full, such as `pruned
        1 of 2`."""
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
    proof: Proof | None,
    last_full: date | None,
    today: date,
    full_every: int,
    doubt: str | None = None,
    index: StoredIndex | None = None,
    *,
    is_share: bool = False,
) -> Decision:
    """Decides how a harvest walks a layer.

    - `wish` is `walk` in maps.toml.
    - `last_full` is the day of the map's last finished harvest that was full from its beginning. It is None
      if there is none, and if the last finished harvest kept other zooms or zones: it vouches only for what
      it kept.
    - `full_every` is the number of days from one full harvest to the next.
    - `doubt` says why the times of this renderer's tiles prove nothing. It is None if they may prove
      something.
    - `index` is what is known of the layer's change index. It is None if the layer has none, and if none is
      to be relied on.
    - `is_share` says that the layer has one zoom, and that empty blocks of it are left out.

    An index is relied on if the wish is `auto`. It needs no proof, but a full harvest every `full_every`
    days.
    """
    is_pruned, reason = False, "nothing is proved so far"
    is_due = last_full is None or not 0 <= (today - last_full).days < full_every
    if wish != "auto" or is_due or (index is not None and index.withdrawn is not None):
        index = None
    if wish == "full":
        reason = "walk = full is set"
    elif doubt is not None:
        reason = doubt
    elif is_due:
        day = f"the last full walk was on {last_full}"
        reason = "no full harvest is finished so far" if last_full is None else day
    elif proof is not None and proof.withdrawn is not None:
        reason = f"not to be relied on: {proof.withdrawn}"
    elif wish == "pruned":
        is_pruned, reason = True, "walk = pruned is set"
    elif proof is not None:
        is_pruned, reason = proof.holds, f"{proof.in_words} (as of {proof.day})"
    if is_share:
        reason = (
            f"of the empty places of its only zoom a share is asked, all of them within {full_every} days"
        )
    return Decision(is_pruned, reason, index, is_share=is_share)
