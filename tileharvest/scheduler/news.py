"""What a scheduler has to say and its queue was not told yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.queue.port import Changes

if TYPE_CHECKING:
    from tileharvest.queue.port import Entry, Lease


class News:
    """Gathers in the order of its being said; false while there is none."""

    def __init__(self) -> None:
        self.pushed: list[Entry] = []
        self.taken_up: list[int] = []
        self.finished: list[Lease] = []
        self.failed: list[tuple[Lease, str]] = []
        self.returned: list[Lease] = []
        self.is_seeded = False

    def __bool__(self) -> bool:
        ended = self.finished or self.failed or self.returned
        return bool(self.pushed or self.taken_up or ended or self.is_seeded)

    def taken(self, in_flight: int) -> Changes:
        """All of it; afterwards there is none."""
        changes = Changes(
            self.pushed,
            self.taken_up,
            self.finished,
            self.failed,
            self.returned,
            self.is_seeded,
            in_flight,
        )
        self.__init__()  # type: ignore[misc]
        return changes

    def put_back(self, changes: Changes) -> None:
        """What was taken and not told, before what was said since."""
        self.pushed[:0] = changes.pushed
        self.taken_up[:0] = changes.taken_up
        self.finished[:0] = changes.finished
        self.failed[:0] = changes.failed
        self.returned[:0] = changes.returned
        self.is_seeded = self.is_seeded or changes.is_seeded
