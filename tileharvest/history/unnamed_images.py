"""The images that no version names any more: noted, then leaving, then removed from the store.

A tile that is replaced on the same day leaves its image behind, and so does a kill between an image and its
row. Who records a version has put its image into the store before, or has found it there, and an image that
is removed in between would be missed. That does not happen, whatever is killed, frozen or written by others:

1. An image is `noted` as unnamed (`note_unnamed`, or by the recorder).
2. A clean-up says that it is looked up, in a transaction of its own that waits for those under way: what they
   name is seen afterwards. Then it reads all versions, for which nobody waits (`let_leave`).
3. An image that no version names is said to be `leaving`, where its row still tells of this look-up. Who has
   named it meanwhile has deleted the row.
4. It is removed from the store, in a transaction that holds its row, and its row says so (`remove_leaving`).

A transaction that names an image deletes its row (`hold_images`). If that says that the image leaves or was
removed, the transaction fails with LeavingImageError and names nothing. Its program sees to it that nobody
removes the image any more (`let_stay`), puts it into the store again, deletes the row (`take_back`), and
records anew.

All of this rests on the row that a removal holds until it is done. What a store does after that, and a
removal that goes on when its database has lost the transaction, is told in decision 027.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from sqlalchemy import bindparam, delete, insert, select, text, update

from tileharvest.errors import HistoryError
from tileharvest.history.schema import identity, insert_into, is_tile, unnamed_images, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from tileharvest.history.database import History

_NOTED: Final = "noted"
_LOOKED_UP: Final = "looked up by "
"""The state while a clean-up looks for versions that name the image; what names this clean-up follows."""
_LEAVING: Final = "leaving"
_REMOVED: Final = "removed"

AGE: Final = timedelta(days=1)
"""How long an image stays after it was noted: a page that shows it may be open, a backup under way."""
_REMEMBERED: Final = timedelta(days=90)
"""For how long it is known that an image was removed. No program is frozen for longer between putting an
image and recording it."""
_REMOVED_AT_ONCE: Final = 10
"""Images in one transaction, for which others wait: a millisecond for files, some tenths of a second on S3.
Few, as a removal that is under way goes on when its transaction is lost."""
_NAMES_AT_ONCE: Final = 5_000
"""In one statement: databases have bounds for its parameters."""

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
_IS_REMOVED: Final = {"state": _REMOVED, "noted": None}
"""From the next clean-up on it counts for how long that is known."""
_IS_SETTLED: Final = unnamed_images.c.state.in_((_LEAVING, _REMOVED))


class LeavingImageError(HistoryError):
    """An image that was to be named leaves the store, or has left it. Nothing was recorded."""

    names: Collection[str] = ()
    """The names of such images."""

    @classmethod
    def of(cls, names: Collection[str]) -> LeavingImageError:
        error = cls(
            f"image {min(names)} was removed from the store just when a version was to name it; nothing was"
            " recorded of this batch, and nothing recorded was lost; run again"
        )
        error.names = names
        return error


def identity_of(history: History) -> str:
    """Returns what names this history, and no other one. Its copies have the same. Raises HistoryError."""

    def own(connection: Connection) -> str:
        # The lock keeps two programs from both giving it a name.
        _wait_for_recorders(connection)
        known: str | None = connection.execute(select(identity.c.name)).scalar()
        if known is None:
            known = uuid4().hex
            connection.execute(insert(identity).values(name=known))
        return known

    with history.reading() as connection:
        known: str | None = connection.execute(select(identity.c.name)).scalar()
    return known or history.write(own)


def hold_images(connection: Connection, names: Iterable[str]) -> None:
    """Says that versions which this transaction records name these images. Raises LeavingImageError."""
    left = list(names)
    leaving = []
    for start in range(0, len(left), _NAMES_AT_ONCE):
        rows = connection.execute(_HOLD, {"names": left[start : start + _NAMES_AT_ONCE]})
        leaving += [name for name, state in rows if state in (_LEAVING, _REMOVED)]
    if leaving:
        raise LeavingImageError.of(leaving)


def note_replaced(connection: Connection, places: Sequence[Mapping[str, object]]) -> None:
    """Notes the images of these tiles' versions of the day that are about to be replaced by other ones.

    `places` are parameters of `is_tile`, with `its_day` and `its_sha1`, that of the new image; None where
    there is none.
    """
    connection.execute(_NOTE_REPLACED, places)


def note_dropped(connection: Connection, names: Collection[str]) -> None:
    """Notes images of versions that this transaction drops or replaces."""
    if names:
        noting = insert_into(unnamed_images).on_conflict_do_nothing()
        connection.execute(noting, [{"name": name, "state": _NOTED} for name in sorted(names)])


def note_unnamed(history: History, images: Mapping[str, datetime]) -> None:
    """Notes images by their names, and since when the store has them. Raises HistoryError.

    It may be that versions name some of them: those do not leave. One that was removed and is there again is
    not noted: it has just been put, or stays until that is forgotten.
    """
    rows = [{"name": name, "noted": noted, "state": _NOTED} for name, noted in images.items()]

    def note(connection: Connection) -> None:
        noting = insert_into(unnamed_images)
        noting = noting.on_conflict_do_update(
            index_elements=["name"],
            set_={"noted": noting.excluded.noted},
            where=unnamed_images.c.state == _NOTED,
        )
        for start in range(0, len(rows), _NAMES_AT_ONCE):
            connection.execute(noting, rows[start : start + _NAMES_AT_ONCE])

    if rows:
        history.write(note)


def forget_removed(history: History, now: datetime) -> None:
    """Forgets that images were removed, 90 days after the first call that finds it: one that is there again,
    because a kill came after it was put or the store was restored, can be noted from then on. Raises
    HistoryError."""
    is_removed, noted = unnamed_images.c.state == _REMOVED, unnamed_images.c.noted
    is_old = is_removed & (noted <= now - _REMEMBERED)
    is_new = is_removed & noted.is_(None)

    def forget(connection: Connection) -> None:
        connection.execute(delete(unnamed_images).where(is_old))
        connection.execute(update(unnamed_images).where(is_new).values(noted=now))

    with history.reading() as connection:
        is_any = connection.execute(select(unnamed_images.c.name).where(is_old | is_new).limit(1)).first()
    if is_any:
        history.write(forget)


def is_any_unnamed(history: History) -> bool:
    """Returns whether there is an image that may leave now or later. Raises HistoryError."""
    some = select(unnamed_images.c.name).where(unnamed_images.c.state != _REMOVED).limit(1)
    with history.reading() as connection:
        return connection.execute(some).first() is not None


def let_stay(history: History, names: Collection[str]) -> None:
    """Returns when nobody will remove these images any more; it may have happened. Raises HistoryError."""
    stays = update(unnamed_images).where(unnamed_images.c.name.in_(names)).values(_IS_REMOVED)
    history.write(lambda connection: connection.execute(stays))


def take_back(history: History, names: Collection[str]) -> None:
    """Says that the store has these images again, after `let_stay`. Raises HistoryError."""
    history.write(lambda connection: connection.execute(_HOLD, {"names": list(names)}).all())


def let_leave(history: History, now: datetime) -> None:
    """Says of the images that were noted a day ago, and that no version names, that they leave.

    What the recorder has noted counts from now on. Where there is anything to decide this reads all versions,
    a second for a million, for which nobody waits. Raises HistoryError.
    """
    before = now - AGE
    looked_up = _LOOKED_UP + uuid4().hex
    is_ours = unnamed_images.c.state == looked_up

    def begin(connection: Connection) -> None:
        connection.execute(update(unnamed_images).where(unnamed_images.c.noted.is_(None)).values(noted=now))

    def look_up(connection: Connection) -> None:
        _wait_for_recorders(connection)
        # Also what another clean-up looks up, which may have been killed: then that one decides nothing.
        is_one = ~_IS_SETTLED & (unnamed_images.c.noted <= before)
        connection.execute(update(unnamed_images).where(is_one).values(state=looked_up))

    def decide(connection: Connection) -> None:
        _wait_for_recorders(connection)
        for start in range(0, len(named), _NAMES_AT_ONCE):
            is_named = unnamed_images.c.name.in_(named[start : start + _NAMES_AT_ONCE])
            connection.execute(delete(unnamed_images).where(is_ours, is_named))
        connection.execute(update(unnamed_images).where(is_ours).values(state=_LEAVING))

    with history.reading() as connection:
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
    """Has the images that leave removed, also those of a clean-up that was killed. Returns how many.

    `remove` is called with some of their names at a time, and raises what this raises; HistoryError apart.
    """
    leaving = (
        select(unnamed_images.c.name)
        .where(unnamed_images.c.state == _LEAVING)
        .limit(_REMOVED_AT_ONCE)
        .with_for_update()
    )

    def remove_some(connection: Connection) -> int:
        if connection.dialect.name == "postgresql":
            # A program that is frozen here goes on to remove: until then nobody may put these images again.
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        # Right before the removal: a connection that was lost is noticed here.
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
    """Waits for the transactions that hold images, and lets others wait. A file has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE unnamed_images IN SHARE ROW EXCLUSIVE MODE"))
