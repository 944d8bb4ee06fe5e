"""A clean-up: images that no version names any more are removed from the store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tileharvest.errors import StoreError
from tileharvest.history.unnamed_images import (
    forget_removed,
    identity_of,
    is_any_unnamed,
    let_leave,
    note_unnamed,
    remove_leaving,
)
from tileharvest.store.port import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileharvest.history.database import History
    from tileharvest.store.port import HeldImage, TileStore


def clean_up(history: History, store: TileStore, now: datetime) -> int:
    """Removes the images that were noted as unnamed a day ago, unless versions name them. Returns how many.

    May run beside harvests, imports and other clean-ups; why that is safe is told in
    `history/unnamed_images.py`. Where nothing is noted it costs a short query, else it reads all versions
    once, a second for a million. Raises HistoryError, and StoreError, also where another history may use the
    store.
    """
    forget_removed(history, now)
    if not is_any_unnamed(history):
        return 0
    _refuse_shared(history, store)
    let_leave(history, now)
    return remove_leaving(history, store.remove)


def note(history: History, store: TileStore, images: Iterable[HeldImage]) -> None:
    """Notes images as unnamed since the store has them. Raises as `clean_up` does.

    One that was removed within the last 90 days and is there again is not noted.
    """
    _refuse_shared(history, store)
    note_unnamed(history, {one.name: datetime.fromtimestamp(one.stored, UTC) for one in images})


def _refuse_shared(history: History, store: TileStore) -> None:
    """Raises StoreError where this is not the only history that uses the store."""
    own = identity_of(history)
    store.join(own)
    others = store.histories() - {own}
    if others == {UNKNOWN}:
        raise StoreError(
            "the store has images from before it noted which histories use it; nothing was removed: harvest"
            " once with each history that uses it, then delete .history-unknown from it (on S3"
            " histories/unknown)"
        )
    if others:
        raise StoreError(
            "another history uses the same store, and its images cannot be told; nothing was removed: if it"
            f" is no more, delete .history-{min(others)} from the store (on S3 histories/{min(others)})"
        )
