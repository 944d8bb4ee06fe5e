"""What a worker has pushed lately, so that it need not push it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileharvest.queue.port import Entry

LATELY: Final = 25_000
"""Requests that are remembered at least, and twice as many at most: then 9 MB. A push costs a microsecond
more."""


class Pushed:
    """An exact memory of what is surely in the queue, or was. What is new takes the place of what is oldest:
    half of it at once, as to keep the order of all would cost as much again."""

    def __init__(self, lately: int = LATELY) -> None:
        self._lately = lately
        self._new: set[tuple[str, bytes]] = set()
        self._old: set[tuple[str, bytes]] = set()

    def __contains__(self, one: tuple[str, bytes]) -> bool:
        """Of a segment and a fingerprint."""
        return one in self._new or one in self._old

    def add(self, entries: Iterable[Entry]) -> None:
        """Only what the queue has answered for."""
        self._new.update((one.segment, one.fingerprint) for one in entries if one.fingerprint is not None)
        if len(self._new) >= self._lately:
            self._new, self._old = set(), self._new

    def forget(self) -> None:
        """All of it: the queue may have lost something."""
        self._new, self._old = set(), set()
