"""Locks of a folder: each is held once, and ends with its holder."""

from pathlib import Path

from tileharvest.politeness.lock import Lock


def test_a_lock_is_held_once_until_it_is_dropped(tmp_path: Path) -> None:
    one, same, other = Lock(tmp_path, "a"), Lock(tmp_path, "a"), Lock(tmp_path, "b")
    assert not one.is_taken()
    # To look makes no file.
    assert list(tmp_path.iterdir()) == []
    assert one.take()
    assert not same.take()
    assert same.is_taken()
    assert other.take()
    one.drop()
    one.drop()
    assert not same.is_taken()
    assert same.take()
    same.drop()
    other.drop()
