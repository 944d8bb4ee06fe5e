"""How fast a map's host may be asked."""

from __future__ import annotations

from dataclasses import dataclass

from tileharvest.maps.rates import NO_GAP, Gap


@dataclass(frozen=True, slots=True)
class Pace:
    """How all workers of a map together may ask its host. Raises ValueError for a pace that asks nothing."""

    host: str
    concurrency: int
    """Requests of the map on the way at the same time."""
    gap: Gap = NO_GAP
    """From the start of one request of the map to the start of its next, whichever workers make them."""
    host_concurrency: int | None = None
    """Requests to the host on the way at the same time, of all maps together; None: as many as its maps
    may."""
    host_gap: Gap = NO_GAP
    """From the start of one request to the host to the start of the next, of whichever maps."""

    def __post_init__(self) -> None:
        if not self.host or self.concurrency < 1:
            raise ValueError(f"a pace of {self.concurrency} requests at once to '{self.host}' asks nothing")
        if self.host_concurrency is not None and self.host_concurrency < 1:
            raise ValueError(f"{self.host_concurrency} requests at once to '{self.host}' ask nothing")

    @property
    def least(self) -> float:
        """Seconds from the start of one request to that of the next at least."""
        return max(self.gap.least, self.host_gap.least)
