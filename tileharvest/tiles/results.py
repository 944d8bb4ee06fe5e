"""What a harvest found for one tile: the one item that spiders yield."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.versions import Image, Validator

_WITH_IMAGE = frozenset({Outcome.ADDED, Outcome.UPDATED, Outcome.REPLACED})
_NOT_SKIPPING = frozenset({Outcome.NOTHING, Outcome.GONE, Outcome.FAILED})


@dataclass(frozen=True, slots=True)
class Step:
    """What a tile's answer means for the walk, as `Walk.step` says it. Raises ValueError for two meanings."""

    seen: Validator | None = None
    """What the server said of the tile, where that is to be remembered. It is empty for a tile that is not
    there, and None where nothing is new."""
    skips: bool = False
    """Whether what lies below is not asked, as the tile is unchanged and trusted."""
    doubts: bool = False
    """Whether what is remembered of the tile is of another state, although nothing new is to be remembered:
    then it is not to be trusted any more."""
    is_kept: bool = True
    """Whether the map keeps the tile's zoom. Of a tile at another zoom it is only asked whether it exists."""

    def __post_init__(self) -> None:
        if (self.seen is not None) + self.skips + self.doubts > 1:
            raise ValueError(f"what is seen is neither skipped nor doubted: {self}")

    @property
    def is_news(self) -> bool:
        """Whether the history has anything to note for the walk."""
        return self.seen is not None or self.skips or self.doubts


@dataclass(frozen=True, slots=True)
class TileResult:
    """An outcome with all that recording it needs. Recording the same result twice changes nothing.

    Raises ValueError when the parts do not belong together.
    """

    layer: str
    tile: Tile
    outcome: Outcome
    image: Image | None = None
    """The new version's; given exactly for `add`, `upd` and `rep`."""
    body: bytes | None = field(default=None, repr=False)
    """The image's bytes, until they are stored."""
    validator: Validator | None = None
    """The GET's; given with an image and for `nMod`."""
    reason: str | None = None
    """Why a `fail` is one, for a person: a line such as `500 Internal Server Error, 5 attempts`."""
    step: Step = Step()
    again: bool = False
    """Whether a lease on it was lost, so that its image may be in the store already."""

    @property
    def is_counted(self) -> bool:
        """Whether the outcome is one of the harvest. At a zoom that is not kept only a `fail` is."""
        return self.step.is_kept or self.outcome is Outcome.FAILED

    @property
    def is_recorded(self) -> bool:
        """Whether the history has anything to note."""
        return self.is_counted or self.step.is_news

    def __post_init__(self) -> None:
        if self.outcome is Outcome.SKIPPED:
            raise ValueError("what was not asked has no result")
        if self.step.skips and self.outcome in _NOT_SKIPPING:
            raise ValueError(f"outcome {self.outcome}: only what lies below an unchanged tile is not asked")
        if self.image is not None and not self.step.is_kept:
            raise ValueError("a tile of a zoom that is not kept comes with an image")
        if (self.outcome in _WITH_IMAGE) != (self.image is not None):
            raise ValueError(f"outcome {self.outcome} with image {self.image}")
        if self.image is None and self.body is not None:
            raise ValueError(f"outcome {self.outcome}: bytes without an image")
        if self.image is not None and self.body is not None and len(self.body) != self.image.size:
            raise ValueError(f"{len(self.body)} bytes are not an image of {self.image.size} bytes")
        if (self.outcome is Outcome.FAILED) != (self.reason is not None):
            raise ValueError(f"outcome {self.outcome} with reason {self.reason}")
