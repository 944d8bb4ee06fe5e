"""The one item that spiders yield: what a harvest found for one tile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tileharvest.outcomes import Outcome

if TYPE_CHECKING:
    from tileharvest.maps.grid import Tile
    from tileharvest.versions import Image, Validator

_WITH_IMAGE = frozenset({Outcome.ADDED, Outcome.UPDATED, Outcome.REPLACED})


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
    """The image's bytes, given with it."""
    validator: Validator | None = None
    """The GET's; given with an image and for `nMod`."""
    reason: str | None = None
    """Why a `fail` is one, for a person: a line such as `500 Internal Server Error, 5 attempts`."""

    def __post_init__(self) -> None:
        if (self.outcome in _WITH_IMAGE) != (self.image is not None):
            raise ValueError(f"outcome {self.outcome} with image {self.image}")
        if (self.image is None) != (self.body is None):
            raise ValueError(f"outcome {self.outcome}: an image comes with its bytes")
        if self.image is not None and self.body is not None and len(self.body) != self.image.size:
            raise ValueError(f"{len(self.body)} bytes are not an image of {self.image.size} bytes")
        if (self.outcome is Outcome.FAILED) != (self.reason is not None):
            raise ValueError(f"outcome {self.outcome} with reason {self.reason}")
