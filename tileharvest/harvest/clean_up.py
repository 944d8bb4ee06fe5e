"""A clean-up, which removes images from the store that no version names any more."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tileharvest.errors import StoreError
from tileharvest.history.unnamed_images import (
    forget_removed,
    identity_of,
    is_any_noted,
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
    """Removes the images that were noted as unnamed a day ago, unless versions name them. Returns their
    number.

    May run beside harvests, imports and other clean-ups. `history/unnamed_images.py` tells why that is safe.
    If nothing is noted, it takes a short query; otherwise it reads all versions once, a second for a million.
    Raises HistoryError and StoreError. A StoreError also says that another history may use the store.
    """
    if not is_any_noted(history):
        return 0
    forget_removed(history, now)
    if not is_any_unnamed(history):
        return 0
    _refuse_shared(history, store)
    let_leave(history, now)
    return remove_leaving(history, store.remove)


def note(history: History, store: TileStore, images: Iterable[HeldImage]) -> None:
    """Notes images as unnamed, each since the moment at which it was stored. Raises errors as `clean_up`
    does.

    An image that was removed within the last 90 days and is there again is not noted.
    """
    _refuse_shared(history, store)
    note_unnamed(history, {one.name: datetime.fromtimestamp(one.stored, UTC) for one in images})


def _refuse_shared(history: History, store: TileStore) -> None:
    """Raises StoreError if another history uses the store, or may use it."""
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
