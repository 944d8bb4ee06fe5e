"""What came of a simulated fleet."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class Report:
    """Counts, and how busy the workers were."""

    maps: int
    workers: int
    days: float
    visits: int = 0
    requests: int = 0
    changed_tiles: int = 0
    asked_twice: int = 0
    """Requests on the way when a worker died."""
    deaths: int = 0
    taken_over: int = 0
    """Maps that were under way when their worker died."""
    joined: int = 0
    failed_down: int = 0
    """Runs that ended because the site was down."""
    failed_budget: int = 0
    missed: list[str] = field(default_factory=list)
    """Segments in which a map was due and no worker began to visit it."""
    unfinished: Counter[str] = field(default_factory=Counter)
    """Visits that had not ended when their segment had, by what held them up; not those that went on then."""
    late: int = 0
    """Visits that began in their segment and ended after it."""
    over_limit: int = 0
    """Windows in which a host was asked too often."""
    windows: int = 0
    over_concurrency: int = 0
    """How often the workers of a map had more requests on the way than it allows."""
    over_budget: int = 0
    """Runs that spent more than their budget."""
    begins_after_due: dict[str, float] = field(default_factory=dict)
    """Seconds."""
    cpu_share: float = 0.0
    cpu_share_busiest_hour: float = 0.0
    """Of one core of the busiest worker."""
    places_used: float = 0.0
    """Maps under way, on average."""
    places_most: int = 0
    requests_per_second: float = 0.0
    requests_per_second_busiest_hour: float = 0.0

    @property
    def faults(self) -> int:
        """How often something was not as it must be."""
        return len(self.missed) + self.over_limit + self.over_concurrency + self.over_budget

    def as_json(self) -> dict[str, Any]:
        """Returns it with no more than ten of the missed visits."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return found | {"missed": len(self.missed), "missed_such_as": self.missed[:10]}


def too_full(starts: Sequence[float], window: float, most: int) -> int:
    """Returns in how many windows of so many seconds, each of which begins with a start, there are more than
    `most` starts. The starts need not be in order."""
    ordered = sorted(starts)
    pairs = zip(ordered, ordered[most:], strict=False)
    # A microsecond, as starts that were added up are not exact.
    return sum(later - first < window - 1e-6 for first, later in pairs)
