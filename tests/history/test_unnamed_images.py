"""Images that no version names any more leave the store, and never one that a version names."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from sqlalchemy import event, select

from tests.history.making import END, LATER, A, B, began, ended, found, image_of
from tileharvest.errors import HistoryError
from tileharvest.history import connection as connections
from tileharvest.history.database import History
from tileharvest.history.schema import unnamed_images
from tileharvest.history.unnamed_images import (
    LeavingImageError,
    forget_removed,
    hold_images,
    identity_of,
    is_any_unnamed,
    let_leave,
    let_stay,
    note_unnamed,
    remove_leaving,
    take_back,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.servers.postgresql import PostgresqlServer

FIRST: Final = image_of(b"first").file_name
SECOND: Final = image_of(b"second").file_name
A_DAY: Final = timedelta(days=1)


class Store:
    """A store that notes the images that are removed from it."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def remove(self, names: Sequence[str]) -> None:
        self.removed += names


@pytest.fixture
def store() -> Store:
    return Store()


def replaced(history: History) -> None:
    """A harvest finds a tile twice on its day: it replaces the first image by the second."""
    harvest = began(history)
    harvest.record([found("add", body=b"first")])
    harvest.record([found("rep", body=b"second")])
    ended(harvest)


def test_an_image_that_was_replaced_on_its_day_leaves_a_day_later(history: History, store: Store) -> None:
    replaced(history)
    let_leave(history, END)
    let_leave(history, END + A_DAY / 2)
    assert remove_leaving(history, store.remove) == 0
    let_leave(history, END + A_DAY)
    assert remove_leaving(history, store.remove) == 1
    assert store.removed == [FIRST]
    assert not is_any_unnamed(history)


def test_an_image_whose_tile_is_gone_on_its_day_leaves_a_day_later(history: History, store: Store) -> None:
    first = began(history)
    first.record([found("add", body=b"first"), found("add", B, body=b"second")])
    ended(first)
    second = began(history, segment="run")
    second.record([found("gone"), found("ign", B)])
    ended(second)
    let_leave(history, END)
    let_leave(history, END + A_DAY)
    remove_leaving(history, store.remove)
    assert store.removed == [FIRST]


def test_an_image_whose_tile_is_gone_on_a_later_day_stays(history: History) -> None:
    replaced(history)
    later = began(history, LATER)
    later.record([found("gone")])
    ended(later)
    with history.reading() as connection:
        assert connection.execute(select(unnamed_images.c.name)).scalars().all() == [FIRST]


def test_an_image_that_another_version_names_stays(history: History, store: Store) -> None:
    harvest = began(history)
    harvest.record([found("add", B, body=b"first")])
    ended(harvest)
    later = began(history, LATER)
    later.record([found("add", body=b"first")])
    later.record([found("rep", body=b"second")])
    let_leave(history, END)
    let_leave(history, END + A_DAY)
    assert remove_leaving(history, store.remove) == 0
    assert not is_any_unnamed(history)


def test_the_same_image_again_is_not_replaced_by_itself(history: History) -> None:
    harvest = began(history)
    harvest.record([found("add", body=b"first")])
    harvest.record([found("rep", body=b"first")])
    let_leave(history, END)
    let_leave(history, END + A_DAY)
    assert not is_any_unnamed(history)


def test_an_image_that_a_version_names_before_it_leaves_stays(history: History, store: Store) -> None:
    replaced(history)
    let_leave(history, END)
    began(history, LATER).record([found("add", B, body=b"first")])
    let_leave(history, END + A_DAY)
    assert remove_leaving(history, store.remove) == 0


@pytest.mark.parametrize("is_removed", [False, True], ids=["it leaves", "it was removed"])
def test_a_version_cannot_name_an_image_that_leaves(
    history: History, store: Store, *, is_removed: bool
) -> None:
    """Its program had found the image in the store before, and must put it again."""
    note_unnamed(history, {FIRST: END - A_DAY})
    let_leave(history, END)
    if is_removed:
        remove_leaving(history, store.remove)
    harvest = began(history)
    with pytest.raises(LeavingImageError) as caught:
        harvest.record([found("add", body=b"first"), found("add", B, body=b"second")])
    assert set(caught.value.names) == {FIRST}
    assert harvest.counts() == {}


def test_an_image_that_was_taken_back_is_named_and_stays(history: History, store: Store) -> None:
    note_unnamed(history, {FIRST: END - A_DAY})
    let_leave(history, END)
    let_stay(history, [FIRST])
    assert remove_leaving(history, store.remove) == 0
    take_back(history, [FIRST])
    harvest = began(history)
    harvest.record([found("add", body=b"first")])
    let_leave(history, END + 3 * A_DAY)
    assert remove_leaving(history, store.remove) == 0


@contextmanager
def meanwhile(history: History, work: Callable[[History], None]) -> Iterator[None]:
    """Has another program do this once, while all versions are read."""

    def about_to_execute(*args: Any) -> None:
        if not done and "FROM versions JOIN unnamed_images" in args[2]:
            done.append(1)
            with History.open(address, lock_timeout=1.0) as other:
                work(other)

    done: list[int] = []
    address = history._engine.url.render_as_string(hide_password=False)
    event.listen(history._engine, "before_cursor_execute", about_to_execute)
    try:
        yield
    finally:
        event.remove(history._engine, "before_cursor_execute", about_to_execute)
    assert done


def test_while_versions_are_read_others_record_and_what_they_name_stays(
    history: History, store: Store
) -> None:
    note_unnamed(history, {FIRST: END - A_DAY, SECOND: END - A_DAY})
    with meanwhile(history, lambda other: began(other).record([found("add", body=b"first")])):
        let_leave(history, END)
    assert remove_leaving(history, store.remove) == 1
    assert store.removed == [SECOND]


def test_an_image_that_is_named_and_noted_again_while_versions_are_read_stays(
    history: History, store: Store
) -> None:
    def name_and_note(other: History) -> None:
        began(other).record([found("add", body=b"first")])
        note_unnamed(other, {FIRST: END - A_DAY})

    note_unnamed(history, {FIRST: END - A_DAY})
    with meanwhile(history, name_and_note):
        let_leave(history, END)
    assert remove_leaving(history, store.remove) == 0
    let_leave(history, END)
    assert not is_any_unnamed(history)


@pytest.mark.parametrize("is_named", [True, False], ids=["it is named", "the recorder is killed"])
def test_a_clean_up_waits_for_a_transaction_that_names_an_image(
    history: History, store: Store, *, is_named: bool
) -> None:
    class KilledError(Exception):
        pass

    note_unnamed(history, {FIRST: END - A_DAY})
    address = history._engine.url.render_as_string(hide_password=False)
    with (
        History.open(address, lock_timeout=0.3) as other,
        suppress(KilledError),
        history.writing() as connection,
    ):
        hold_images(connection, [FIRST])
        with pytest.raises(HistoryError, match="locked by another program"):
            let_leave(other, END)
        if not is_named:
            raise KilledError
    let_leave(history, END)
    assert remove_leaving(history, store.remove) == (0 if is_named else 1)


def test_of_two_clean_ups_the_one_that_has_begun_later_decides(history: History, store: Store) -> None:
    """The first has begun to read before another program named the image, and it was noted again."""

    def name_and_clean(other: History) -> None:
        began(other).record([found("add", body=b"first")])
        note_unnamed(other, {FIRST: END - A_DAY})
        let_leave(other, END)

    note_unnamed(history, {FIRST: END - A_DAY})
    with meanwhile(history, name_and_clean):
        let_leave(history, END)
    assert remove_leaving(history, store.remove) == 0
    assert not is_any_unnamed(history)


def test_what_a_killed_clean_up_was_looking_up_is_looked_up_by_the_next(
    history: History, store: Store
) -> None:
    def kill(_: History) -> None:
        raise KeyboardInterrupt

    note_unnamed(history, {FIRST: END - A_DAY})
    with pytest.raises(KeyboardInterrupt), meanwhile(history, kill):
        let_leave(history, END)
    let_leave(history, END)
    assert remove_leaving(history, store.remove) == 1


def test_until_the_store_has_it_again_no_other_program_names_it_either(history: History) -> None:
    note_unnamed(history, {FIRST: END - A_DAY})
    let_leave(history, END)
    let_stay(history, [FIRST])
    with pytest.raises(LeavingImageError):
        began(history).record([found("add", body=b"first")])


def test_a_clean_up_that_was_killed_is_completed_by_the_next(history: History, store: Store) -> None:
    def kill(names: Sequence[str]) -> None:
        store.remove(names)
        raise KeyboardInterrupt

    note_unnamed(history, {FIRST: END - A_DAY, SECOND: END - A_DAY})
    let_leave(history, END)
    with pytest.raises(KeyboardInterrupt):
        remove_leaving(history, kill)
    with pytest.raises(LeavingImageError):
        began(history).record([found("add", A, body=b"first")])
    assert remove_leaving(history, store.remove) == 2
    assert sorted(store.removed) == sorted(2 * [FIRST, SECOND])


def test_that_an_image_was_removed_is_forgotten_after_months(history: History, store: Store) -> None:
    note_unnamed(history, {FIRST: END - A_DAY})
    let_leave(history, END)
    remove_leaving(history, store.remove)
    let_leave(history, END + A_DAY)
    forget_removed(history, END + 99 * A_DAY)
    with history.writing() as connection:
        hold_images(connection, [FIRST])


def test_it_counts_from_the_removal_for_how_long_one_is_known_that_was_found_old(
    history: History, store: Store
) -> None:
    note_unnamed(history, {FIRST: END - 100 * A_DAY})
    let_leave(history, END)
    remove_leaving(history, store.remove)
    for days in (2, 4):
        let_leave(history, END + days * A_DAY)
        forget_removed(history, END + days * A_DAY)
    with pytest.raises(LeavingImageError):
        began(history).record([found("add", body=b"first")])


def test_nobody_puts_an_image_again_while_a_removal_is_held_up(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program that removes is frozen. The server ends other transactions that wait for their program."""
    monkeypatch.setattr(connections, "IDLE_TIMEOUT", 0.2)
    with postgresql.database() as database:
        url = postgresql.url(database)
        with History.open(url) as cleaner, History.open(url, lock_timeout=0.6) as recorder:
            harvest = began(recorder)
            note_unnamed(cleaner, {FIRST: END - A_DAY})
            let_leave(cleaner, END)

            def held_up(names: Sequence[str]) -> None:
                assert list(names) == [FIRST]
                with pytest.raises(HistoryError, match="locked by another program"):
                    let_stay(recorder, names)
                with pytest.raises(HistoryError, match="locked by another program"):
                    harvest.record([found("add", body=b"first")])

            assert remove_leaving(cleaner, held_up) == 1
            with pytest.raises(LeavingImageError):
                harvest.record([found("add", body=b"first")])
            let_stay(recorder, [FIRST])
            take_back(recorder, [FIRST])
            harvest.record([found("add", body=b"first")])


def test_a_removal_whose_connection_is_lost_does_not_go_on_with_others(
    postgresql: PostgresqlServer, store: Store
) -> None:
    """A restart of the server does that. The next attempt removes no image that was taken back meanwhile."""
    images = sorted(image_of(b"%d" % number).file_name for number in range(30))
    lost: list[str] = []
    with postgresql.database() as database:
        url = postgresql.url(database)
        with History.open(url) as cleaner, History.open(url) as recorder:
            note_unnamed(cleaner, dict.fromkeys(images, END - A_DAY))
            let_leave(cleaner, END)

            def lose(names: Sequence[str]) -> None:
                store.remove(names)
                if not lost:
                    lost.extend(names)
                    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    postgresql.ask(f"{others} WHERE datname = '{database}' AND state = 'idle in transaction'")
                    let_stay(recorder, images)

            assert remove_leaving(cleaner, lose) == 0
    assert store.removed == lost
    assert len(lost) < len(images) / 2


def test_a_history_keeps_its_identity(history: History) -> None:
    assert identity_of(history) == identity_of(history)
    assert len(identity_of(history)) == 32
