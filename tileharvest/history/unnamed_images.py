"""The images that no version names any more: they are noted, then leave, then are removed from the store.

A tile that is replaced on the same day leaves its image behind, and so does a kill between an image and its
row. A program that records a version has put the image into the store before, or has found it there. If the
image were removed in between, it would be missing. The following steps exclude that, even if programs are
killed or frozen, or write at the same time:

1. An image is `noted` as unnamed, by `note_unnamed` or by the recorder.
2. A clean-up marks the image's row as looked up (`let_leave`). This transaction waits for all that are under
   way, so that the clean-up sees the versions that they record. Then the clean-up reads all versions, for
   which nobody waits.
3. If no version names the image, and its row still has the mark of this clean-up, the row becomes `leaving`.
   A program that has named the image in the meantime has deleted the row.
4. The image is removed from the store in a transaction that holds its row (`remove_leaving`). The row becomes
   `removed`.

A transaction that names an image deletes its row (`hold_images`). If the row is `leaving` or `removed`, the
transaction fails with LeavingImageError and names nothing. Its program makes sure that nobody removes the
image any more (`let_stay`), puts it into the store again, deletes the row (`take_back`), and records anew.

All of this rests on the row that a removal holds until it is done. Decision 027 tells what a store may do
after that, and what happens if the database loses the transaction of a removal that goes on.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from sqlalchemy import bindparam, delete, insert, select, text, update

from tileharvest.errors import HistoryError
from tileharvest.history.connection import in_parts
from tileharvest.history.schema import identity, insert_into, is_tile, unnamed_images, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from tileharvest.history.database import History

_NOTED: Final = "noted"
_LOOKED_UP: Final = "looked up by "
"""The state when a clean-up is looking for versions that name the image. The name of the clean-up follows."""
_LEAVING: Final = "leaving"
_REMOVED: Final = "removed"

AGE: Final = timedelta(days=1)
"""How long an image stays after it was noted, because a page that shows it may be open, or a backup may
run."""
_REMEMBERED: Final = timedelta(days=90)
"""How long it is known that an image was removed. No program is frozen for longer between putting an image
into the store and recording it."""
_REMOVED_AT_ONCE: Final = 10
"""The most images that one transaction removes. Others wait for it: a millisecond for files, some tenths of a
second on S3. They are few, because a removal that is under way goes on if its transaction is lost."""
_NAMES_AT_ONCE: Final = 5_000
"""The most names in one statement. Databases limit the number of its parameters."""

_ITS_NAME: Final = versions.c.sha1 + "." + versions.c.extension
_REPLACED: Final = select(_ITS_NAME, text(f"'{_NOTED}'")).where(
    is_tile(versions),
    versions.c.day == bindparam("its_day"),
    versions.c.sha1.is_not(None),
    versions.c.sha1.is_distinct_from(bindparam("its_sha1")),
)
_NOTE_REPLACED: Final = (
    insert_into(unnamed_images).from_select(["name", "state"], _REPLACED).on_conflict_do_nothing()
)
_HOLD: Final = (
    delete(unnamed_images)
    .where(unnamed_images.c.name.in_(bindparam("names", expanding=True)))
    .returning(unnamed_images.c.name, unnamed_images.c.state)
)
_NAMED: Final = (
    select(unnamed_images.c.name)
    .join_from(versions, unnamed_images, unnamed_images.c.name == _ITS_NAME)
    .where(unnamed_images.c.state == bindparam("its_state"))
    .distinct()
)
_ANY: Final = select(unnamed_images.c.name).limit(1)
_IS_REMOVED: Final = {"state": _REMOVED, "noted": None}
"""The values of a removed image's row. The next clean-up notes the moment from which `_REMEMBERED` counts."""
_IS_SETTLED: Final = unnamed_images.c.state.in_((_LEAVING, _REMOVED))


class LeavingImageError(HistoryError):
    """An image that a version was to name leaves the store, or has left it. Nothing was recorded."""

    names: Collection[str] = ()
    """The names of these images."""

    @classmethod
    def of(cls, names: Collection[str]) -> LeavingImageError:
        error = cls(
            f"image {min(names)} was removed from the store just when a version was to name it; nothing was"
            " recorded of this batch, and nothing recorded was lost; run again"
        )
        error.names = names
        return error


def identity_of(history: History) -> str:
    """Returns the identity of this history, which no other history has, except for copies. Raises
    HistoryError."""

    def own(connection: Connection) -> str:
        # The lock prevents that two programs each give it a name.
        _wait_for_recorders(connection)
        known: str | None = connection.execute(select(identity.c.name)).scalar()
        if known is None:
            known = uuid4().hex
            connection.execute(insert(identity).values(name=known))
        return known

    with history.reading(once=True) as connection:
        known: str | None = connection.execute(select(identity.c.name)).scalar()
    return known or history.write(own)


def hold_images(connection: Connection, names: Iterable[str]) -> None:
    """Deletes the rows of these images, because this transaction records versions that name them. Raises
    LeavingImageError."""
    leaving = []
    for part in in_parts(list(names), _NAMES_AT_ONCE):
        rows = connection.execute(_HOLD, {"names": part})
        leaving += [name for name, state in rows if state in (_LEAVING, _REMOVED)]
    if leaving:
        raise LeavingImageError.of(leaving)


def note_replaced(connection: Connection, places: Sequence[Mapping[str, object]]) -> None:
    """Notes the images of versions that are about to be replaced by other images on the same day.

    `places` have the parameters of `is_tile`, with `its_day` and `its_sha1`. The sha1 is that of the new
    image, or None if there is none.
    """
    connection.execute(_NOTE_REPLACED, places)


def note_dropped(connection: Connection, names: Collection[str]) -> None:
    """Notes the images of versions that this transaction drops or replaces."""
    if names:
        noting = insert_into(unnamed_images).on_conflict_do_nothing()
        connection.execute(noting, [{"name": name, "state": _NOTED} for name in sorted(names)])


def note_unnamed(history: History, images: Mapping[str, datetime]) -> None:
    """Notes images by their names, each with the moment since which the store has it. Raises HistoryError.

    Versions may name some of them; such images do not leave. An image that was removed and is in the store
    again is not noted: it was just put there, or it stays until its removal is forgotten.
    """
    rows = [{"name": name, "noted": noted, "state": _NOTED} for name, noted in images.items()]

    def note(connection: Connection) -> None:
        noting = insert_into(unnamed_images)
        noting = noting.on_conflict_do_update(
            index_elements=["name"],
            set_={"noted": noting.excluded.noted},
            where=unnamed_images.c.state == _NOTED,
        )
        for part in in_parts(rows, _NAMES_AT_ONCE):
            connection.execute(noting, part)

    if rows:
        history.write(note)


def forget_removed(history: History, now: datetime) -> None:
    """Forgets that images were removed, 90 days after the first call that finds them removed.

    From then on such an image can be noted, if it is in the store again because of a kill after it was put,
    or because the store was restored. Raises HistoryError."""
    is_removed, noted = unnamed_images.c.state == _REMOVED, unnamed_images.c.noted
    is_old = is_removed & (noted <= now - _REMEMBERED)
    is_new = is_removed & noted.is_(None)

    def forget(connection: Connection) -> None:
        connection.execute(delete(unnamed_images).where(is_old))
        connection.execute(update(unnamed_images).where(is_new).values(noted=now))

    with history.reading(once=True) as connection:
        is_any = connection.execute(select(unnamed_images.c.name).where(is_old | is_new).limit(1)).first()
    if is_any:
        history.write(forget)


def is_any_noted(history: History) -> bool:
    """Returns whether any image is noted, those included that were removed. Raises HistoryError."""
    with history.reading(once=True) as connection:
        return connection.execute(_ANY).first() is not None


def is_any_unnamed(history: History) -> bool:
    """Returns whether any image may leave, now or later. Raises HistoryError."""
    some = select(unnamed_images.c.name).where(unnamed_images.c.state != _REMOVED).limit(1)
    with history.reading(once=True) as connection:
        return connection.execute(some).first() is not None


def let_stay(history: History, names: Collection[str]) -> None:
    """Makes sure that nobody removes these images any more. They may be removed already. Raises
    HistoryError."""
    stays = update(unnamed_images).where(unnamed_images.c.name.in_(names)).values(_IS_REMOVED)
    history.write(lambda connection: connection.execute(stays))


def take_back(history: History, names: Collection[str]) -> None:
    """Deletes the rows of these images, because the store has them again after `let_stay`. Raises
    HistoryError."""
    history.write(lambda connection: connection.execute(_HOLD, {"names": list(names)}).all())


def let_leave(history: History, now: datetime) -> None:
    """Marks the images as leaving that were noted a day ago and that no version names.

    For images that the recorder has noted since the last call, the day begins now. If there is anything to
    decide, this reads all versions, which takes a second for a million and for which nobody waits. Raises
    HistoryError.
    """
    before = now - AGE
    looked_up = _LOOKED_UP + uuid4().hex
    is_ours = unnamed_images.c.state == looked_up

    def begin(connection: Connection) -> None:
        connection.execute(update(unnamed_images).where(unnamed_images.c.noted.is_(None)).values(noted=now))

    def look_up(connection: Connection) -> None:
        _wait_for_recorders(connection)
        # This takes over the images of another clean-up, which may have been killed. That one decides nothing
        # then.
        is_one = ~_IS_SETTLED & (unnamed_images.c.noted <= before)
        connection.execute(update(unnamed_images).where(is_one).values(state=looked_up))

    def decide(connection: Connection) -> None:
        _wait_for_recorders(connection)
        for part in in_parts(named, _NAMES_AT_ONCE):
            is_named = unnamed_images.c.name.in_(part)
            connection.execute(delete(unnamed_images).where(is_ours, is_named))
        connection.execute(update(unnamed_images).where(is_ours).values(state=_LEAVING))

    with history.reading(once=True) as connection:
        is_open = ~_IS_SETTLED | unnamed_images.c.noted.is_(None)
        noted = connection.execute(select(unnamed_images.c.noted).where(is_open)).scalars().all()
    if None in noted:
        history.write(begin)
    if any(one is not None and one <= before for one in noted):
        history.write(look_up)
        named = history.read(
            lambda connection: connection.execute(_NAMED, {"its_state": looked_up}).scalars().all()
        )
        history.write(decide)


def remove_leaving(history: History, remove: Callable[[Sequence[str]], None]) -> int:
    """Removes the images that leave, with those of a clean-up that was killed. Returns their number.

    `remove` is called with some names at a time. Raises HistoryError, and the errors of `remove`.
    """
    leaving = (
        select(unnamed_images.c.name)
        .where(unnamed_images.c.state == _LEAVING)
        .limit(_REMOVED_AT_ONCE)
        .with_for_update()
    )

    def remove_some(connection: Connection) -> int:
        if connection.dialect.name == "postgresql":
            # A program that is frozen here goes on with the removal later. Until then nobody may put these
            # images again.
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        # This comes right before the removal, because it notices a lost connection.
        names = connection.execute(leaving).scalars().all()
        if names:
            remove(names)
            is_one = unnamed_images.c.name.in_(names)
            connection.execute(update(unnamed_images).where(is_one).values(_IS_REMOVED))
        return len(names)

    removed = 0
    while some := history.write(remove_some):
        removed += some
    return removed


def _wait_for_recorders(connection: Connection) -> None:
    """Waits for the transactions that hold images, and makes later ones wait. A file has one writer
    anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE unnamed_images IN SHARE ROW EXCLUSIVE MODE"))
